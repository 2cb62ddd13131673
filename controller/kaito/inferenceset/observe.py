"""Gathers what an InferenceSet's plan depends on from the caches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from controller.apimachinery.ownership import is_owned_by, ownership_text
from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.inference_pool import SeenInferencePool, observe_inference_pool
from controller.kaito.api.inferenceset import INFERENCE_SETS, InferenceSet, InferenceSetSpec
from controller.kaito.api.options import KaitoOptions, Provisioner, Runtime
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.inferenceset import upgrade
from controller.kaito.inferenceset.observation import (
    SCOPE,
    InferenceSetObservation,
    InferenceSetSettings,
    MissingReplicas,
    Replica,
    replica_names,
)
from controller.kaito.inferenceset.upgrade import observe_pools
from controller.kaito.workloads.pods import base_image
from controller.kaito.workloads.preset import server_image
from controller.kube.resources import STATEFUL_SETS
from controller.runtime.kind import CacheReader, CreateError, owned_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controller.kube.objects import ObjectMeta, StatefulSet
    from controller.runtime.reconcile.definitions import DefinitionsReader, UnknownFieldFinder


@dataclass(frozen=True, slots=True)
class InferenceSetSources:
    """The sources of an observation besides the caches.

    Attributes:
        goal_of: returns the goal of a set, or its problem.
        replica_of: returns a Workspace as a replica.
        settings: settings of the controller.
        read_definition: reads which fields the installed definitions lack.
        unknown_fields_of: finds the unknown fields of its template.
    """

    goal_of: Callable[[InferenceSet], InferenceSetSpec | Problem]
    replica_of: Callable[[Workspace], Replica]
    settings: InferenceSetSettings
    read_definition: DefinitionsReader
    unknown_fields_of: UnknownFieldFinder


def observe_inference_set(
    key: str, reads: CacheReader, sources: InferenceSetSources
) -> InferenceSetObservation | None:
    """Read the InferenceSet `namespace/name` and its Workspaces; None if it does not exist."""
    found = reads.get(INFERENCE_SETS, key)
    if found is None:
        return None
    definition = sources.read_definition(reads, found)
    goal, settings = sources.goal_of(found), sources.settings
    if not reads.serves(WORKSPACES):
        return InferenceSetObservation(
            found, goal, settings, workspaces=None, definition=definition
        )
    meta = found.metadata
    workspaces = tuple(owned_by(reads, WORKSPACES, meta))
    wanted = 0 if isinstance(goal, Problem) else goal.replicas
    unreadable = reads.unreadable(WORKSPACES, meta.namespace)
    has_pools = settings.options.provisioner is Provisioner.NODE_POOLS
    policy = None if isinstance(goal, Problem) else upgrade.policy_of(goal, settings.options)
    reads_servers = len(workspaces) > wanted or policy is not None
    replicas = tuple(_replicas(workspaces, sources, reads, reads_servers=reads_servers))
    surge = upgrade.has_surge(policy) and any(each.on_old_image for each in replicas)
    return InferenceSetObservation(
        found,
        goal,
        settings,
        workspaces,
        replicas=replicas,
        pools=observe_pools(meta, reads) if has_pools else (),
        inference_pool=_inference_pool(found, goal, settings.options, reads),
        missing=_missing(meta, wanted + surge, workspaces, settings.batch, reads),
        unreadable={
            name: odd.reason
            for name, odd in unreadable.items()
            if is_owned_by(odd.metadata, meta.uid)
        },
        has_pending_writes=SCOPE in reads.pending_scopes(meta.uid),
        definition=definition,
        unknown_fields=sources.unknown_fields_of(found, reads),
        consistency_warnings=reads.consistency_warnings(meta.uid),
    )


def _inference_pool(
    found: InferenceSet, goal: InferenceSetSpec | Problem, options: KaitoOptions, reads: CacheReader
) -> SeenInferencePool | None:
    """Return the InferencePool; sets of a MultiRoleInference have one together, of Kaito's."""
    if not options.inference_pools or isinstance(goal, Problem):
        return None
    meta = found.metadata
    is_served = options.runtime(meta.annotations or {}) is Runtime.VLLM
    is_alone = labels.CREATED_BY_MULTI_ROLE not in (meta.labels or {})
    is_wanted = is_served and is_alone and "preset" in goal.template.inference
    return observe_inference_pool(meta, reads, is_wanted=is_wanted)


def _replicas(
    workspaces: tuple[Workspace, ...],
    sources: InferenceSetSources,
    reads: CacheReader,
    *,
    reads_servers: bool,
) -> Iterator[Replica]:
    """Yield the Workspaces as replicas, with their servers if these matter."""
    image = base_image(sources.settings.options)
    for workspace in workspaces:
        found, meta = sources.replica_of(workspace), workspace.metadata
        server = reads.get(STATEFUL_SETS, meta.key) if reads_servers else None
        if server is not None and is_owned_by(server.metadata, meta.uid):
            is_old = server_image(server) != image
            found = replace(found, on_old_image=is_old, has_ready_server=_is_ready(server))
        yield found


def _is_ready(server: StatefulSet) -> bool:
    """Return whether all pods are ready, and made from the template that is in force."""
    wanted, status = server.spec.replicas, server.status
    present = {1 if wanted is None else wanted, status.ready_replicas, status.updated_replicas}
    return len(present) == 1 and status.observed_generation == server.metadata.generation


def _missing(
    meta: ObjectMeta,
    wanted: int,
    workspaces: tuple[Workspace, ...],
    batch: int,
    reads: CacheReader,
) -> MissingReplicas:
    """Return the replicas that one plan creates; later ones are not read."""
    room = min(wanted - len(workspaces), batch)
    if room <= 0:
        return MissingReplicas()
    present = {each.metadata.name for each in workspaces}
    free: list[str] = []
    taken: dict[str, str] = {}
    refused: dict[str, CreateError] = {}
    for name in islice(replica_names(meta), wanted):
        if len(free) == room:
            break
        if name in present:
            continue
        conflict = _conflict(meta, name, reads)
        if conflict:
            taken[name] = conflict
            continue
        free.append(name)
        error = reads.create_error(WORKSPACES, f"{meta.namespace}/{name}")
        if error is not None:
            refused[name] = error
    return MissingReplicas(tuple(free), taken, refused)


def _conflict(meta: ObjectMeta, name: str, reads: CacheReader) -> str:
    """Return the end of a sentence about the other owner of a name; empty if it is free."""
    if name in reads.unreadable(WORKSPACES, meta.namespace):
        return "cannot be read"
    key = f"{meta.namespace}/{name}"
    present = reads.get(WORKSPACES, key)
    if present is not None:
        return ownership_text(present.metadata)
    return ownership_text(None) if reads.has_name_conflict(WORKSPACES, key) else ""
