"""What an InferenceSet is seen to be: its settings, the names and numbers of its Workspaces."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import READY, find_condition, is_true
from controller.apimachinery.custom_object import conditions_of, dig, status_of
from controller.apimachinery.names import suffix
from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.options import KaitoOptions
from controller.kaito.provisioning.pool_decision import RESOURCE_READY
from controller.runtime.reconcile.definitions import InstalledDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.kaito.api.inference_pool import SeenInferencePool
    from controller.kaito.api.inferenceset import InferenceSet, InferenceSetSpec
    from controller.kaito.api.workspace import Workspace
    from controller.kube.objects import ObjectMeta
    from controller.runtime.kind import CreateError


# Settings of the InferenceSet controller.


@dataclass(frozen=True, slots=True)
class InferenceSetSettings:
    """Settings of the InferenceSet controller.

    Attributes:
        options: settings about the cluster.
        batch: maximum Workspaces of a set that one plan creates, deletes or changes.
    """

    options: KaitoOptions = field(default_factory=KaitoOptions)
    batch: int = 64


# Names of the Workspaces of an InferenceSet.
#
# A name follows from the set and the replica's index. A create that is repeated, after a lost
# response or because of a late cache, finds the Workspace that it created before, so that no
# replica has two. Kaito lets the API server choose names.

_LENGTH: Final = 5
"""Characters of the suffix, as many as those that the API server chooses."""


def replica_names(inference_set: ObjectMeta) -> Iterator[str]:
    """Yield the names, by index, each once; they never end."""
    used: set[str] = set()
    for index in count():
        attempts = (_name(inference_set, index, attempt) for attempt in count())
        name = next(each for each in attempts if each not in used)
        used.add(name)
        yield name


def _name(inference_set: ObjectMeta, index: int, attempt: int) -> str:
    digits = suffix(inference_set.uid, "replica", str(index), str(attempt))[:_LENGTH]
    return f"{inference_set.name}-{digits}"


# The Workspaces of an InferenceSet, each as its status shows it.

PEAK_METRIC: Final = "peakTokensPerMinute"
_TELLING: Final = (READY, RESOURCE_READY, "InferenceReady")
"""Conditions that name a cause: of the operator, of the nodes, of the server."""

_SUCCEEDED: Final = "WorkspaceSucceeded"


@dataclass(frozen=True, slots=True)
class Replica:
    """One Workspace of a set.

    Attributes:
        name: name of the Workspace.
        uid: uid of the Workspace.
        ready: whether it serves.
        cause: why it gets no further, in its own words; empty if it does, or does not say.
        terminating: whether it is being deleted; its nodes are not free yet.
        on_old_image: whether its server exists and runs another image than a new one would.
        has_ready_server: whether all pods of its server are ready, as they are to be now.
        upgraded_to: version of the image that its label asks for; may be empty.
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
        ready=not meta.terminating and is_true(conditions_of(workspace), _SUCCEEDED),
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


@dataclass(frozen=True, slots=True)
class ReplicaPool:
    """The NodePool of a replica.

    Attributes:
        name: name of the pool.
        uid: uid of the pool.
        workspace: name of the replica.
        position: index of the budget for drifted nodes.
        nodes: number of nodes, or a percentage, that the budget lets Karpenter replace at a time.
        has_drifted: whether nodes of it have drifted.
    """

    name: str
    uid: str
    workspace: str
    position: int
    nodes: str
    has_drifted: bool


# The input of an InferenceSet's plan: the set and its Workspaces at one moment, as values.

SCOPE: Final = "workspaces"
"""Scope of writes to Workspaces. They are counted together, so while the outcome of one write is
unknown, none is created, changed or deleted."""


@dataclass(frozen=True, slots=True)
class MissingReplicas:
    """The replicas that one plan is to create.

    Attributes:
        free: names that may be created.
        taken: names that are not free; the values complete the sentence "there is a Workspace of
            this name that ...".
        refused: errors of refused creates, by name of the Workspace.
    """

    free: tuple[str, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict[str, str])
    refused: Mapping[str, CreateError] = field(default_factory=dict[str, "CreateError"])


@dataclass(frozen=True, slots=True)
class InferenceSetObservation:
    """An InferenceSet and its Workspaces.

    Attributes:
        inference_set: the set.
        goal: its specification, or the `Problem` that makes it invalid.
        settings: settings of the controller.
        workspaces: its Workspaces, including terminating ones; None if the API server has no such
            resource.
        replicas: the same, each as its status shows it.
        pools: NodePools of the replicas.
        inference_pool: its InferencePool; None while the feature is off.
        missing: replicas that are to be created.
        unreadable: why Workspaces cannot be decoded, by name.
        has_pending_writes: whether the outcome of a write to a Workspace is unknown.
        definition: what the installed definitions of sets and Workspaces lack.
        consistency_warnings: sentences about writes that the cache contradicts.
        unknown_fields: a sentence that names the unknown fields of its template; may be empty.
    """

    inference_set: InferenceSet
    goal: InferenceSetSpec | Problem
    settings: InferenceSetSettings = field(default_factory=InferenceSetSettings)
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

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The present conditions."""
        return self.status.get("conditions") or []
