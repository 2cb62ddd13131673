"""What an InferenceSet's plan depends on: its Workspaces and their NodePools, from the caches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from controller.apimachinery.conditions import READY, find_condition, is_true
from controller.apimachinery.custom_object import conditions_of, dig, status_of
from controller.apimachinery.metadata import is_owned_by, suffix
from controller.apimachinery.validation import Problem
from controller.kaito.api import labels
from controller.kaito.api.inference_pool import SeenInferencePool, observe_inference_pool
from controller.kaito.api.inferenceset import INFERENCE_SETS, InferenceSet, InferenceSetSpec
from controller.kaito.api.karpenter import NODE_POOLS, POOL_CLAIMS, NodePool, labelled
from controller.kaito.api.labels import name_in
from controller.kaito.api.options import KaitoOptions, Provisioner, Runtime
from controller.kaito.api.status import (
    INFERENCE_READY,
    PEAK_METRIC,
    RESOURCE_READY,
    WORKSPACE_SUCCEEDED,
)
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.workloads.pods import base_image
from controller.kaito.workloads.preset import server_image
from controller.kube.objects import KubeObject, ObjectMeta, StatefulSet
from controller.kube.resources import STATEFUL_SETS
from controller.runtime.definitions import (
    DefinitionsReader,
    InstalledDefinition,
    UnknownFieldFinder,
)
from controller.runtime.kind import CacheReader, CreateError, other_owner, owned_by

_LENGTH: Final = 5
"""Characters of the suffix, as many as those that the API server chooses."""


def replica_names(inference_set: ObjectMeta) -> Iterator[str]:
    """Yield the names of the Workspaces of a set, by index, each once; they never end.

    A create that is repeated, after a lost response or because of a late cache, finds the Workspace
    that it created before, so that no replica has two. Kaito lets the API server choose names.
    """
    used: set[str] = set()
    for index in count():
        attempts = (_name(inference_set, index, attempt) for attempt in count())
        name = next(each for each in attempts if each not in used)
        used.add(name)
        yield name


def _name(inference_set: ObjectMeta, index: int, attempt: int) -> str:
    digits = suffix(inference_set.uid, "replica", str(index), str(attempt))[:_LENGTH]
    return f"{inference_set.name}-{digits}"


_TELLING: Final = (READY, RESOURCE_READY, INFERENCE_READY)
"""Conditions that name a cause: of the operator, of the nodes, of the server."""


class Replica(Struct, frozen=True):
    """One Workspace of a set, as its status shows it.

    Attributes:
        cause: why it gets no further, in its own words; empty if it does, or does not say.
        terminating: whether it is being deleted; its nodes are not free yet.
        on_old_image: whether its server exists and runs another image than a new one would.
        has_ready_server: whether all pods of its server are ready, as they are to be now.
        peak: measured tokens per minute; 0 without a measurement.
    """

    name: str
    uid: str = ""
    ready: bool = False
    cause: str = ""
    terminating: bool = False
    on_old_image: bool = False
    has_ready_server: bool = False
    upgraded_to: str = ""
    peak: float = 0.0


def replica(workspace: Workspace) -> Replica:
    """Return the replica that a Workspace shows itself to be."""
    meta = workspace.metadata
    return Replica(
        meta.name,
        meta.uid,
        ready=not meta.terminating and is_true(conditions_of(workspace), WORKSPACE_SUCCEEDED),
        cause=_cause(workspace),
        terminating=meta.terminating,
        upgraded_to=(meta.labels or {}).get(labels.UPGRADE_TO, ""),
        peak=_peak(workspace),
    )


def _cause(workspace: Workspace) -> str:
    found = conditions_of(workspace)
    for told in (find_condition(found, each) for each in _TELLING):
        if told is not None and told.get("status") == "False":
            return str(told.get("message") or "")
    return ""


def _peak(workspace: Workspace) -> float:
    text = dig(status_of(workspace), "performance", "metrics", PEAK_METRIC, "value")
    try:
        value = float(text) if isinstance(text, str) else 0.0
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value > 0 else 0.0


class ReplicaPool(Struct, frozen=True):
    """The NodePool of a replica.

    Attributes:
        workspace: name of the replica.
        position: index of the budget for drifted nodes.
        nodes: number of nodes, or a percentage, that the budget lets Karpenter replace at a time.
    """

    name: str
    uid: str
    workspace: str
    position: int
    nodes: str
    has_drifted: bool


SCOPE: Final = "workspaces"
"""Scope of writes to Workspaces. They are counted together, so while the outcome of one write is
unknown, none is created, changed or deleted."""


class MissingReplicas(Struct, frozen=True):
    """The replicas that one plan is to create.

    Attributes:
        taken: names that are not free; the values complete the sentence "there is a Workspace of
            this name that ...".
        refused: errors of refused creates, by name of the Workspace.
    """

    free: tuple[str, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict[str, str])
    refused: Mapping[str, CreateError] = field(default_factory=dict[str, "CreateError"])


class InferenceSetObservation(Struct, frozen=True):
    """An InferenceSet and its Workspaces.

    Attributes:
        goal: its specification, or the `Problem` that makes it invalid.
        workspaces: its Workspaces, including terminating ones; None if the API server has no such
            resource.
        replicas: the same, each as its status shows it.
        unreadable: why Workspaces cannot be decoded, by name.
        has_pending_writes: whether the outcome of a write to a Workspace is unknown.
        consistency_warnings: sentences about writes that the cache contradicts.
    """

    inference_set: InferenceSet
    goal: InferenceSetSpec | Problem
    options: KaitoOptions = field(default_factory=KaitoOptions)
    workspaces: tuple[Workspace, ...] | None = ()
    replicas: tuple[Replica, ...] = ()
    pools: tuple[ReplicaPool, ...] = ()
    inference_pool: SeenInferencePool | None = None
    missing: MissingReplicas = field(default_factory=MissingReplicas)
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])
    has_pending_writes: bool = False
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)
    consistency_warnings: tuple[str, ...] = ()
    unknown_fields: str = ""

    @property
    def spec(self) -> InferenceSetSpec:
        """The specification of a set that is known to be valid."""
        assert not isinstance(self.goal, Problem)
        return self.goal

    @property
    def status(self) -> dict[str, Any]:
        """The present status."""
        return status_of(self.inference_set)


_DRIFTED: Final = "Drifted"
_BY_SET: Final = "inference-set"


def _set_keys(obj: KubeObject) -> tuple[str, ...]:
    return name_in(obj, labels.POOL_INFERENCE_SET, labels.POOL_INFERENCE_SET_NAMESPACE)


WATCHES: Final = (
    labelled(NODE_POOLS, _BY_SET, _set_keys),
    labelled(POOL_CLAIMS, _BY_SET, _set_keys, labels.POOL_WORKSPACE),
)


def observe_pools(meta: ObjectMeta, reads: CacheReader) -> tuple[ReplicaPool, ...]:
    """Return the pools of a set's replicas that have a budget for drifted nodes, by name."""
    if not (reads.serves(NODE_POOLS) and reads.serves(POOL_CLAIMS)):
        return ()
    drifted = {
        (claim.metadata.labels or {}).get(labels.NODE_POOL)
        for claim in reads.by_index(POOL_CLAIMS, _BY_SET, meta.key)
        if claim.status.is_true(_DRIFTED)
    }
    pools = (_with_budget(each, drifted) for each in reads.by_index(NODE_POOLS, _BY_SET, meta.key))
    return tuple(sorted(filter(None, pools), key=lambda pool: pool.name))


def _with_budget(pool: NodePool, drifted: set[str | None]) -> ReplicaPool | None:
    meta, budgets = pool.metadata, pool.spec.disruption.budgets
    position = next((n for n, each in enumerate(budgets) if _DRIFTED in each.reasons), None)
    if position is None or meta.terminating:
        return None
    workspace, nodes = (meta.labels or {}).get(labels.POOL_WORKSPACE, ""), budgets[position].nodes
    return ReplicaPool(meta.name, meta.uid, workspace, position, nodes, meta.name in drifted)


class InferenceSetSources(Struct, frozen=True):
    """The sources of an observation besides the caches."""

    goal_of: Callable[[InferenceSet], InferenceSetSpec | Problem]
    replica_of: Callable[[Workspace], Replica]
    options: KaitoOptions
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
    goal, options = sources.goal_of(found), sources.options
    seen = InferenceSetObservation(found, goal, options, None, definition=definition)
    if not reads.serves(WORKSPACES):
        return seen
    meta, record = found.metadata, reads.record(found.metadata.uid)
    workspaces = tuple(owned_by(reads, WORKSPACES, meta))
    wanted = 0 if isinstance(goal, Problem) else goal.replicas
    unreadable = reads.unreadable(WORKSPACES, meta.namespace).items()
    has_pools = options.provisioner is Provisioner.NODE_POOLS
    policy = None if isinstance(goal, Problem) else goal.upgrade_policy(options)
    reads_servers = len(workspaces) > wanted or policy is not None
    replicas = tuple(_replicas(workspaces, sources, reads, reads_servers=reads_servers))
    has_surge = policy is not None and policy.has_surge
    surge = has_surge and any(each.on_old_image for each in replicas)
    return replace(
        seen,
        workspaces=workspaces,
        replicas=replicas,
        pools=observe_pools(meta, reads) if has_pools else (),
        inference_pool=_inference_pool(found, goal, options, reads),
        missing=_missing(meta, wanted + surge, workspaces, options.batch, reads),
        unreadable={n: odd.reason for n, odd in unreadable if is_owned_by(odd.metadata, meta.uid)},
        has_pending_writes=SCOPE in record.pending_scopes,
        unknown_fields=sources.unknown_fields_of(found, reads),
        consistency_warnings=record.consistency_warnings,
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
    image = base_image(sources.options)
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
    meta: ObjectMeta, wanted: int, workspaces: tuple[Workspace, ...], batch: int, reads: CacheReader
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
        if conflict := _conflict(meta, name, reads):
            taken[name] = conflict
            continue
        free.append(name)
        error = reads.record(meta.uid).create_error(WORKSPACES, f"{meta.namespace}/{name}")
        if error is not None:
            refused[name] = error
    return MissingReplicas(tuple(free), taken, refused)


def _conflict(meta: ObjectMeta, name: str, reads: CacheReader) -> str:
    """Return the end of a sentence about the other owner of a name; empty if it is free."""
    if name in reads.unreadable(WORKSPACES, meta.namespace):
        return "cannot be read"
    return other_owner(reads, WORKSPACES, f"{meta.namespace}/{name}", meta.uid)
