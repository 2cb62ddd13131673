"""Gathers what a Workspace has besides nodes from the caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from controller.apimachinery.custom_object import conditions_of
from controller.apimachinery.ownership import is_owned_by, ownership_text
from controller.kaito.api.options_map import OPTIONS_MAPS
from controller.kaito.workloads import LOCAL_DISK_CLASS, headless_service_name
from controller.kaito.workspace.benchmark import benchmark_log
from controller.kaito.workspace.config import wanted_config
from controller.kaito.workspace.observation import SeenWorkload
from controller.kaito.workspace.watches import JOBS, PODS, REVISIONS, STORAGE_CLASSES
from controller.kaito.workspace.workload import SCOPE
from controller.kube.objects import KubeObject
from controller.kube.resources import SERVICES, STATEFUL_SETS
from controller.runtime.kind import OWNER_INDEX

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
    """Read the revisions, the services, the server or the job, the options, and what was asked."""
    meta = workspace.metadata
    names = (meta.name, headless_service_name(meta.name))
    config = wanted_config(goal)
    options = reads.get(OPTIONS_MAPS, f"{meta.namespace}/{config}") if config else None
    server, job = _own(STATEFUL_SETS, meta, reads), _own(JOBS, meta, reads)
    pods = tuple(_pods_of(server or job, reads))
    log = benchmark_log(meta, goal, server, pods, conditions_of(workspace))
    has_classes = reads.serves(STORAGE_CLASSES)
    return SeenWorkload(
        revisions=tuple(reads.by_index(REVISIONS, OWNER_INDEX, meta.uid)),
        services=frozenset(n for n in names if reads.get(SERVICES, f"{meta.namespace}/{n}")),
        server=server,
        job=job,
        pods=pods,
        benchmark_log=log,
        benchmark=lookups.benchmark(log) if lookups is not None and log is not None else None,
        config=options.texts if options is not None else None,
        has_local_disks=has_classes and reads.get(STORAGE_CLASSES, LOCAL_DISK_CLASS) is not None,
        has_pending_writes=SCOPE in reads.pending_scopes(meta.uid),
        foreign=dict(_foreign(meta, goal, reads)),
    )


def _own(resource: Resource[T], workspace: ObjectMeta, reads: CacheReader) -> T | None:
    found = reads.get(resource, workspace.key)
    return found if found is not None and is_owned_by(found.metadata, workspace.uid) else None


def _pods_of(workload: KubeObject | None, reads: CacheReader) -> Iterable[Pod]:
    return reads.by_index(PODS, OWNER_INDEX, workload.metadata.uid) if workload else ()


def _foreign(workspace: ObjectMeta, goal: Goal, reads: CacheReader) -> Iterator[tuple[str, str]]:
    """Workloads of others under the name of the Workspace; services may be anybody's."""
    resource: Resource[Any] = JOBS if goal.spec.tuning is not None else STATEFUL_SETS
    found = reads.get(resource, workspace.key)
    taken = found is not None and not is_owned_by(found.metadata, workspace.uid)
    if taken or (found is None and reads.has_name_conflict(resource, workspace.key)):
        name = f"{resource.kind} {workspace.name}"
        owner = ownership_text(found.metadata if found is not None else None)
        yield name, f"there is a {name} that {owner}: delete or rename one of the two"
