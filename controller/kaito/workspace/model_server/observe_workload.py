"""Gathers what a Workspace has besides nodes from the caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from controller.apimachinery.custom_object import conditions_of
from controller.apimachinery.ownership import is_owned_by, ownership_text
from controller.kaito.api.options_map import OPTIONS_MAPS
from controller.kaito.workloads import LOCAL_DISK_CLASS, headless_service_name, possible_names
from controller.kaito.workspace.config import wanted_config
from controller.kaito.workspace.model_server.benchmark import benchmark_log
from controller.kaito.workspace.model_server.workload import SCOPE
from controller.kaito.workspace.observation import SeenWorkload
from controller.kaito.workspace.revisions import SCOPE as HISTORY
from controller.kaito.workspace.watches import (
    DEPLOYMENTS,
    JOBS,
    PODS,
    REVISIONS,
    STORAGE_CLASSES,
)
from controller.kube.objects import KubeObject
from controller.kube.resources import SERVICES, STATEFUL_SETS
from controller.runtime.kind import owned_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controller.kaito.api.workspace import Workspace
    from controller.kaito.lookups import Lookups
    from controller.kaito.workspace.goal import Goal
    from controller.kube.objects import ObjectMeta, Pod
    from controller.kube.resources import Resource
    from controller.runtime.kind import CacheReader

T = TypeVar("T", bound=KubeObject)


def observe_workload(
    workspace: Workspace, goal: Goal, reads: CacheReader, lookups: Lookups | None
) -> SeenWorkload:
    """Read the revisions, services, server or job, options, and results of look-ups."""
    meta = workspace.metadata
    config = wanted_config(goal)
    options = reads.get(OPTIONS_MAPS, f"{meta.namespace}/{config}") if config else None
    server, job = _own(STATEFUL_SETS, meta, reads), _own(JOBS, meta, reads)
    creator = server or job
    pods = tuple(_pods_of(creator, reads))
    log = benchmark_log(meta, goal, server, pods, conditions_of(workspace))
    has_classes = reads.serves(STORAGE_CLASSES)
    pending = reads.pending_scopes(meta.uid)
    return SeenWorkload(
        revisions=tuple(owned_by(reads, REVISIONS, meta)),
        foreign_revisions=frozenset(_foreign_revisions(meta, goal, reads)),
        services=frozenset(_present_services(meta, reads)),
        server=server,
        deployment=_own(DEPLOYMENTS, meta, reads),
        job=job,
        pods=pods,
        failed_create=reads.failed_create(creator.metadata.uid, meta.uid) if creator else None,
        benchmark_log=log,
        benchmark=lookups.benchmark(log) if lookups is not None and log is not None else None,
        config=options.texts if options is not None else None,
        has_local_disks=has_classes and reads.get(STORAGE_CLASSES, LOCAL_DISK_CLASS) is not None,
        has_pending_writes=SCOPE in pending,
        has_pending_history=HISTORY in pending,
        foreign=dict(_foreign(meta, goal, reads)),
    )


def _present_services(workspace: ObjectMeta, reads: CacheReader) -> Iterator[str]:
    """Yield the names of its services that exist, whether they can be read or not."""
    unreadable = reads.unreadable(SERVICES, workspace.namespace)
    for name in _services(workspace.name):
        if name in unreadable or reads.get(SERVICES, f"{workspace.namespace}/{name}") is not None:
            yield name


def _own(resource: Resource[T], workspace: ObjectMeta, reads: CacheReader) -> T | None:
    found = reads.get(resource, workspace.key)
    return found if found is not None and is_owned_by(found.metadata, workspace.uid) else None


def _pods_of(workload: KubeObject | None, reads: CacheReader) -> Iterable[Pod]:
    return owned_by(reads, PODS, workload.metadata) if workload else ()


def _foreign_revisions(workspace: ObjectMeta, goal: Goal, reads: CacheReader) -> Iterator[str]:
    """Yield names of ControllerRevisions that the Workspace does not control."""
    for name in possible_names(workspace.name, goal.hash):
        if _is_taken(REVISIONS, workspace, name, reads):
            yield name


def _foreign(workspace: ObjectMeta, goal: Goal, reads: CacheReader) -> Iterator[tuple[str, str]]:
    """Yield objects of others with a name that the workload needs, each with a sentence."""
    for resource, name in _wanted_names(workspace, goal, reads):
        odd = reads.unreadable(resource, workspace.namespace).get(name)
        if odd is not None:
            yield f"{resource.kind} {name}", f"{resource.kind} {name} cannot be read: {odd.reason}"
            continue
        if not _is_taken(resource, workspace, name, reads):
            continue
        found = reads.get(resource, f"{workspace.namespace}/{name}")
        title = f"{resource.kind} {name}"
        owner = ownership_text(found.metadata if found is not None else None)
        yield title, f"there is a {title} that {owner}: delete or rename one of the two"


def _wanted_names(
    workspace: ObjectMeta, goal: Goal, reads: CacheReader
) -> Iterator[tuple[Resource[Any], str]]:
    """Yield the names that the workload needs for itself.

    A service without a controller may be the user's own, as in Kaito. Another Workspace's leads to
    another model: `a` and `a-headless` both need a service `a-headless`.
    """
    yield (JOBS if goal.spec.tuning is not None else STATEFUL_SETS), workspace.name
    for name in () if goal.spec.tuning is not None else _services(workspace.name):
        found = reads.get(SERVICES, f"{workspace.namespace}/{name}")
        if found is not None and found.metadata.controller is not None:
            yield SERVICES, name


def _is_taken(
    resource: Resource[Any], workspace: ObjectMeta, name: str, reads: CacheReader
) -> bool:
    key = f"{workspace.namespace}/{name}"
    found = reads.get(resource, key)
    if found is not None:
        return not is_owned_by(found.metadata, workspace.uid)
    return reads.has_name_conflict(resource, key)


def _services(name: str) -> tuple[str, str]:
    return name, headless_service_name(name)
