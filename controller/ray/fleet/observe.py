"""Gathers what a fleet's plan depends on, from the caches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

import msgspec

from controller.apimachinery.conditions import CONTESTED, READY, find_condition, is_true, time_of
from controller.apimachinery.custom_object import (
    SpecificationMemo,
    conditions_of,
    mapping,
    status_of,
    unreadable_conditions,
)
from controller.apimachinery.metadata import (
    ALPHABET,
    SUFFIX_LENGTH,
    is_owned_by,
    owner_reference,
    suffix,
)
from controller.apimachinery.validation import Problem
from controller.kube.objects import ObjectMeta
from controller.ray.api import labels
from controller.ray.api.names import HEAD_POD_READY, PROVISIONED, SUSPENDED
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.api.rayclusterfleet import (
    RAYCLUSTERFLEETS,
    ClusterTemplate,
    FleetSpec,
    RayClusterFleet,
)
from controller.ray.diagnosis.writes import refused_creates
from controller.ray.pods.hashes import digest, is_comparable, is_outdated, recreate_digest
from controller.runtime.definitions import (
    DefinitionsReader,
    InstalledDefinition,
    UnknownFieldFinder,
)
from controller.runtime.kind import CacheReader, other_owner, owned_by
from controller.runtime.plan import Failure, Target

# The copies of a fleet, as their RayClusters show them.


class Copy(msgspec.Struct, frozen=True):
    """One RayCluster of a fleet.

    Attributes:
        index: index of the copy, which its replacement inherits.
        up_to_date: whether it was created from the present template, or from the last valid one
            while that is invalid.
    """

    cluster: RayCluster
    index: int
    up_to_date: bool = True

    @property
    def name(self) -> str:
        """Name of the RayCluster."""
        return self.cluster.metadata.name

    @property
    def age_order(self) -> tuple[int, str, str]:
        """Sort key: by index, the oldest first."""
        return self.index, self.cluster.metadata.creation_timestamp or "", self.name

    @property
    def stays(self) -> bool:
        """True if it is not being deleted."""
        return not self.cluster.metadata.terminating

    @property
    def ready(self) -> bool:
        """True if its head and all workers are ready."""
        return self.stays and self._is(READY)

    @property
    def suspended(self) -> bool:
        """True if it is suspended and all its pods are gone."""
        return self.stays and self._is(SUSPENDED)

    @property
    def was_of_use(self) -> bool:
        """True if it may do or hold work: its head is ready, or all of it is or once was."""
        return self._is(HEAD_POD_READY) or self._is(PROVISIONED)

    @property
    def message(self) -> str:
        """The reason why it is not ready and who changes it, in the words of the RayCluster."""
        if not self.stays:
            return "it is being deleted"
        found = find_condition(conditions_of(self.cluster), READY) or {}
        message = str(found.get("message") or "it has not reported yet")
        return f"{message}; {self.contested}".removesuffix("; ")

    @property
    def contested(self) -> str:
        """The fields that another writer keeps changing, as the RayCluster reports; else empty."""
        found = find_condition(conditions_of(self.cluster), CONTESTED) or {}
        return str(found.get("message") or "")

    @property
    def progressed(self) -> tuple[datetime, ...]:
        """The times when it was created and when it became ready."""
        ready = find_condition(conditions_of(self.cluster), READY) or {}
        since = ready.get("lastTransitionTime") if self.ready else None
        found = (self.cluster.metadata.creation_timestamp, since)
        return tuple(moment for text in found if (moment := time_of(text)) is not None)

    @property
    def is_told_to_suspend(self) -> bool:
        """True if its specification asks for its suspension."""
        return mapping(self.cluster.spec).get("suspend") is True

    def is_available(self, *, fleet_suspended: bool) -> bool:
        """Return whether it is as it should be: ready, or suspended if the fleet is."""
        return self.suspended if fleet_suspended else self.ready

    def _is(self, condition: str) -> bool:
        return is_true(conditions_of(self.cluster), condition)


# The input of a fleet's plan: the fleet and its copies at one moment, as values.

SCOPE: Final = "rayclusters"
"""Scope of all writes to copies, since they share one budget.

While one is of unknown outcome, no copy is created, changed or deleted.
"""


class FleetGoal(msgspec.Struct, frozen=True):
    """The user's goal, read from a valid specification."""

    spec: FleetSpec
    template_hash: str


_BEFORE: Final = datetime.min.replace(tzinfo=UTC)


class FleetObservation(msgspec.Struct, frozen=True):
    """A fleet and its copies.

    Attributes:
        goal: the user's goal, or the `Problem` that makes the fleet invalid.
        copies: its RayClusters, including terminating ones, by index, the older first.
        name_conflicts: names its copies should get that are not free; the values complete the
            sentence "there is a RayCluster of this name that ...".
        unreadable: the reasons why copies, or their conditions, cannot be read, by name.
        has_pending_writes: whether the outcome of a write to a copy is unknown.
        refused_creates: earlier creates of copies that the API server has refused.
        definition: the fields that the installed definitions of fleets and RayClusters lack.
        now: the time of the plan; not known while observing.
    """

    fleet: RayClusterFleet
    goal: FleetGoal | Problem
    copies: tuple[Copy, ...] = ()
    name_conflicts: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    unreadable: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    has_pending_writes: bool = False
    refused_creates: tuple[Failure, ...] = ()
    unknown_fields: str = ""
    definition: InstalledDefinition = msgspec.field(default_factory=InstalledDefinition)
    consistency_warnings: tuple[str, ...] = ()
    clock_steady_since: datetime | None = None
    now: datetime = _BEFORE

    @property
    def valid_goal(self) -> FleetGoal:
        """The goal of a fleet that is known to be valid."""
        assert not isinstance(self.goal, Problem)
        return self.goal

    @property
    def desired(self) -> int:
        """The number of copies that a valid fleet asks for."""
        return self.valid_goal.spec.replicas

    @property
    def wanted(self) -> tuple[Copy, ...]:
        """The copies with an index of a valid fleet, including terminating ones."""
        return tuple(copy for copy in self.copies if copy.index < self.desired)

    @property
    def surplus(self) -> tuple[Copy, ...]:
        """The copies with an index beyond those of the fleet, including terminating ones."""
        return tuple(copy for copy in self.copies if copy.index >= self.desired)

    @property
    def status(self) -> dict[str, Any]:
        """The present status."""
        return status_of(self.fleet)

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The present conditions."""
        return self.status.get("conditions") or []

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return a stored condition; empty if there is none of this type."""
        return find_condition(self.conditions, kind) or {}

    def is_available(self, copy: Copy) -> bool:
        """Return whether a copy is as a valid fleet wants it now."""
        return copy.is_available(fleet_suspended=self.valid_goal.spec.suspended)


# The template of a fleet: distinguishes outdated copies, and names new ones.
#
# Names follow from fleet, index and template. However often a copy is created, after lost answers
# and restarts, there is one of it.

_CHANGEABLE: Final = frozenset({
    "managedBy", "suspend", "idleSuspend", "idleTerminationOptions", "disruptionBudgets"
})  # fmt: skip
"""Fields of the cluster, besides those about scaling, that replace no copy."""

_NAME: Final = re.compile(
    rf"(?P<fleet>.+)-(?P<index>0|[1-9][0-9]{{0,2}})-[{ALPHABET}]{{{SUFFIX_LENGTH}}}"
)


def template_hash(template: ClusterTemplate) -> str:
    """Hash everything that makes another copy necessary, without what may change in place."""
    spec = {key: value for key, value in template.spec.items() if key not in _CHANGEABLE}
    metadata = msgspec.to_builtins(template.metadata)
    return digest({"metadata": metadata, "spec": recreate_digest(spec)})


def copy_name(fleet: ObjectMeta, index: int, wanted_hash: str) -> str:
    """Return the name of the copy with this index; a namesake of the fleet has other names."""
    return f"{fleet.name}-{index}-{suffix(fleet.uid, wanted_hash)}"


def index_of(fleet: ObjectMeta, cluster: str) -> int | None:
    """Return the index in the name of a fleet's RayCluster; None if it has no such name."""
    found = _NAME.fullmatch(cluster)
    return int(found["index"]) if found and found["fleet"] == fleet.name else None


def observe_fleet(
    key: str,
    reads: CacheReader,
    goal_of: SpecificationMemo[RayClusterFleet, FleetGoal | Problem],
    unknown_fields_of: UnknownFieldFinder,
    read_definition: DefinitionsReader,
) -> FleetObservation | None:
    """Read the fleet `namespace/name` and its copies; None if it does not exist."""
    fleet = goal_of.present(key, reads.get(RAYCLUSTERFLEETS, key))
    if fleet is None:
        return None
    meta, goal = fleet.metadata, goal_of(fleet)
    indexes = range(0 if isinstance(goal, Problem) else goal.spec.replicas)
    wanted_hash = "" if isinstance(goal, Problem) else goal.template_hash
    wanted = tuple(copy_name(meta, index, wanted_hash) for index in indexes)
    owned = owned_by(reads, RAYCLUSTERS, meta)
    copies = tuple(sorted(_copies(fleet, goal, owned), key=attrgetter("age_order")))
    return FleetObservation(
        fleet,
        goal,
        copies=copies,
        name_conflicts=dict(_name_conflicts(meta, wanted, reads)),
        unreadable=dict(_unreadable(meta, wanted, copies, reads)),
        has_pending_writes=SCOPE in reads.record(meta.uid).pending_scopes,
        refused_creates=refused_creates(
            reads.record(meta.uid),
            (Target(RAYCLUSTERS, meta.namespace, name, SCOPE) for name in wanted),
            owner_reference(RAYCLUSTERFLEETS, meta),
        ),
        unknown_fields=unknown_fields_of(fleet, reads),
        definition=read_definition(reads, fleet),
        consistency_warnings=reads.record(meta.uid).consistency_warnings,
        clock_steady_since=reads.clock_steady_since,
    )


def _copies(
    fleet: RayClusterFleet, goal: FleetGoal | Problem, owned: list[RayCluster]
) -> Iterator[Copy]:
    for cluster in owned:
        index = index_of(fleet.metadata, cluster.metadata.name)
        if index is not None:
            yield Copy(cluster, index, _is_up_to_date(fleet, goal, cluster, index))


def _unreadable(
    fleet: ObjectMeta, names: tuple[str, ...], copies: tuple[Copy, ...], reads: CacheReader
) -> Iterator[tuple[str, str]]:
    """Yield the copies that cannot be decoded, and those whose readiness cannot be read."""
    for name, odd in reads.unreadable(RAYCLUSTERS, fleet.namespace).items():
        if name in names or is_owned_by(odd.metadata, fleet.uid):
            yield name, odd.reason
    for copy in copies:
        problem = unreadable_conditions(copy.cluster)
        if copy.stays and problem:
            yield copy.name, problem


def _is_up_to_date(
    fleet: RayClusterFleet, goal: FleetGoal | Problem, cluster: RayCluster, index: int
) -> bool:
    """Return whether it was created from the template, as far as comparable.

    A missing hash, or one of another algorithm, cannot be compared; the name shows the template
    too. The hash of the last valid template is in the status.
    """
    stamped = (cluster.metadata.annotations or {}).get(labels.MADE_FROM)
    if isinstance(goal, Problem):
        recorded = status_of(fleet).get("templateHash")
        return stamped == recorded or not (is_comparable(stamped) and is_comparable(recorded))
    if cluster.metadata.name == copy_name(fleet.metadata, index, goal.template_hash):
        return True
    return not is_outdated(stamped, goal.template_hash)


def _name_conflicts(
    fleet: ObjectMeta, names: tuple[str, ...], reads: CacheReader
) -> Iterator[tuple[str, str]]:
    odd = reads.unreadable(RAYCLUSTERS, fleet.namespace)
    for name in names:
        if name in odd:
            continue  # reported as such
        if conflict := other_owner(reads, RAYCLUSTERS, f"{fleet.namespace}/{name}", fleet.uid):
            yield name, conflict
