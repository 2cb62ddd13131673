"""The RayClusterFleet kind: which copies are created and replaced, and its registration.

The plan is a pure function of the observation and the time. It needs no memory: the next step
follows from the existing copies, so a restarted operator continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.validation import Problem
from controller.kube.objects import ObjectMeta
from controller.ray.api import labels
from controller.ray.api.definitions import CLUSTER_FIELDS, unknown_field_finder
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS, RayClusterFleet, validate_fleet
from controller.ray.children.child_cluster import (
    BOUNDS,
    child_cluster,
    in_place_operations,
    separate_redis,
)
from controller.ray.fleet.observe import (
    SCOPE,
    Copy,
    FleetGoal,
    FleetObservation,
    copy_name,
    observe_fleet,
    template_hash,
)
from controller.ray.fleet.status import current_status, held_changes, upgrade_progress
from controller.ray.rolling import Budget, Permission, Unit, UnitGroup, next_moves
from controller.ray.settings import RaySettings
from controller.runtime.definitions import (
    DefinitionReader,
    DefinitionsReader,
    is_left_as_it_is,
    leave_as_it_is,
    remember,
)
from controller.runtime.kind import CacheReader, Kind, Owned
from controller.runtime.plan import (
    NOTHING,
    Create,
    Delete,
    Event,
    Failure,
    JsonPatch,
    MergePatch,
    Plan,
    StatusPatch,
    Target,
    Write,
    stages_of,
)

# The next copies to create and to retire.
#
# Their number comes from the pure function that rolling upgrades of a RayCluster use too. This
# module chooses indexes: an index without any copy comes first, and a copy with a ready replacement
# retires first.


class FleetStep(msgspec.Struct, frozen=True):
    """The changes that are due now; all of them may be made at once.

    Attributes:
        create: indexes that get an up-to-date copy.
        retire: outdated copies to delete.
        remove: copies to delete because the fleet has fewer indexes now.
    """

    create: tuple[int, ...] = ()
    retire: tuple[Copy, ...] = ()
    remove: tuple[Copy, ...] = ()


def next_step(seen: FleetObservation) -> FleetStep:
    """Return the next step of a valid fleet."""
    strategy, staying = seen.valid_goal.spec.strategy, _by_index(seen)
    units = tuple(_units(seen, staying))
    budget = Budget(strategy.unavailable_of(seen.desired), strategy.surge_of(seen.desired))
    permission = Permission.HOLD if strategy.paused else Permission.ROLL
    group = UnitGroup("copies", seen.desired, units, budget)
    moves = next_moves(group, permission, drains=False)
    empty = [index for index, copies in staying.items() if not copies]
    outdated = [
        index
        for index, copies in staying.items()
        if copies and not any(copy.up_to_date for copy in copies)
    ]
    room = seen.desired + budget.surge - len(units)
    number = max(moves.create, min(len(empty), room))
    taken = {*seen.name_conflicts, *(copy.name for copy in seen.copies)}
    free = [index for index in (*empty, *outdated) if _name(seen, index) not in taken]
    return FleetStep(
        tuple(free[:number]),
        tuple(copy for copy in seen.wanted if copy.name in moves.delete),
        tuple(copy for copy in reversed(seen.surplus) if copy.stays),
    )


def _by_index(seen: FleetObservation) -> dict[int, list[Copy]]:
    """Return the copies of each index that are not being deleted."""
    found: dict[int, list[Copy]] = {index: [] for index in range(seen.desired)}
    for copy in seen.wanted:
        if copy.stays:
            found[copy.index].append(copy)
    return found


def _units(seen: FleetObservation, staying: Mapping[int, Sequence[Copy]]) -> Iterator[Unit]:
    """Yield the copies: those whose index needs them least first, of two alike the newer.

    Copies beyond the number of indexes count as gone, though they still exist.
    """

    def need(copy: Copy) -> tuple[int, int]:
        others = [other for other in staying[copy.index] if other is not copy]
        if any(map(seen.is_available, others)):
            return 0, copy.index
        return (1 if any(other.up_to_date for other in others) else 2), copy.index

    newest_first = list(reversed(seen.wanted))
    for copy in sorted(newest_first, key=need):
        available = seen.is_available(copy)
        joined = available or copy.was_of_use
        yield Unit(copy.name, copy.up_to_date, available, joined, gone=not copy.stays)
    for copy in seen.surplus:
        yield Unit(copy.name, up_to_date=False, gone=True)


def _name(seen: FleetObservation, index: int) -> str:
    return copy_name(seen.fleet.metadata, index, seen.valid_goal.template_hash)


# The RayCluster of one copy: its creation, and edits in place.

Body = dict[str, Any]

_IN_PLACE: Final = (*BOUNDS, "suspend")


def copy_body(fleet: ObjectMeta, goal: FleetGoal, index: int) -> Body:
    """Return the RayCluster to create for this index; labels and annotations are the template's."""
    name, template = copy_name(fleet, index, goal.template_hash), goal.spec.template
    spec = deepcopy(template.spec)
    separated = separate_redis(spec, template.metadata.annotations, name)
    owner = msgspec.structs.replace(
        fleet, labels=template.metadata.labels, annotations=template.metadata.annotations
    )
    made_from = {labels.MADE_FROM: goal.template_hash}
    own = {**made_from, **place_of(goal, index), **separated}
    return child_cluster(RAYCLUSTERFLEETS, owner, name, spec, own_annotations=own)


def place_of(goal: FleetGoal, index: int) -> dict[str, str]:
    """Return the annotations with a copy's index, which count for no hash."""
    return {labels.CLUSTER_INDEX: str(index), labels.CLUSTER_COUNT: str(goal.spec.replicas)}


# Writes that create, change and delete the RayClusters of a fleet.


def create_copies(seen: FleetObservation, step: FleetStep) -> Iterator[Write]:
    """Create the copies that are due."""
    for index in step.create:
        body = copy_body(seen.fleet.metadata, seen.valid_goal, index)
        name = body["metadata"]["name"]
        note = f"Created RayCluster {name}, copy {index} of {seen.desired}"
        created = Event(
            "Normal", "CreatedRayCluster", "Create", note, "Created {count} RayClusters"
        )
        yield Create(_target(seen, name), body, on_success=created)


def delete_copies(seen: FleetObservation, step: FleetStep) -> Iterator[Write]:
    """Delete the copies that retire, and surplus ones."""
    for copy in step.retire:
        yield _delete(seen, copy, "its template is outdated")
    for copy in step.remove:
        yield _delete(seen, copy, f"the fleet has {seen.desired} copies")


def _delete_replaced(seen: FleetObservation) -> Iterator[Write]:
    """Delete the copies of an invalid fleet whose replacement is ready; nothing else has begun."""
    replaced = {copy.index for copy in seen.copies if copy.up_to_date and copy.ready}
    for copy in seen.copies:
        if copy.stays and not copy.up_to_date and copy.index in replaced:
            yield _delete(seen, copy, "its template is outdated")


def update_copies(seen: FleetObservation, step: FleetStep) -> Iterator[Write]:
    """Patch copies that stay where a running cluster may change.

    Worker groups of outdated copies are not changed: their replacements get the new numbers.
    """
    leaving = {copy.name for copy in step.retire}
    for copy in seen.wanted:
        if copy.stays and copy.name not in leaving:
            yield from _update(seen, copy)


def _update(seen: FleetObservation, copy: Copy) -> Iterator[Write]:
    meta, goal = copy.cluster.metadata, seen.valid_goal
    wanted = goal.spec.template.spec
    operations = in_place_operations(copy.cluster, wanted, _IN_PLACE) if copy.up_to_date else ()
    if operations:
        note = f"Updated RayCluster {copy.name}"
        updated = Event(
            "Normal", "UpdatedRayCluster", "Update", note, "Updated {count} RayClusters"
        )
        yield JsonPatch(_target(seen, copy.name), meta.uid, operations, on_success=updated)
        return  # it changes the revision that a second patch would ask for
    patch: dict[str, object] = {}
    suspend = wanted.get("suspend")
    if suspend is not None and copy.is_told_to_suspend is not suspend:
        patch["spec"] = {"suspend": suspend}
    place, present = place_of(goal, copy.index), meta.annotations or {}
    stamps = {key: value for key, value in place.items() if present.get(key) != value}
    if stamps:
        patch["metadata"] = {"annotations": stamps}
    if patch:
        yield MergePatch(_target(seen, copy.name), meta.uid, patch)


def _delete(seen: FleetObservation, copy: Copy, why: str) -> Delete:
    deleted = Event(
        "Normal",
        "DeletedRayCluster",
        "Delete",
        f"Deleted RayCluster {copy.name}: {why}",
        f"Deleted {{count}} RayClusters: {why}",
    )
    return Delete(_target(seen, copy.name), copy.cluster.metadata.uid, on_success=deleted)


def _target(seen: FleetObservation, name: str) -> Target:
    return Target(RAYCLUSTERS, seen.fleet.metadata.namespace, name, SCOPE)


_BLOCKED_RETRY: Final = 60.0
"""Seconds until a taken name is checked again; its release causes no event."""


def plan_fleet(seen: FleetObservation) -> Plan:
    """Return the plan that brings the copies one step nearer to the fleet's specification."""
    if seen.fleet.metadata.terminating:
        return NOTHING  # the garbage collector deletes the copies
    return leave_as_it_is(seen.fleet, seen.definition) or _plan_copies(seen)


def _plan_copies(seen: FleetObservation) -> Plan:
    status = current_status(seen)
    if held_changes(seen):
        return Plan(status=status)
    plan = Plan(status=status, requeue_after=_requeue_after(seen))
    if seen.has_pending_writes or seen.unreadable:
        return plan
    if isinstance(seen.goal, Problem):
        return Plan(status=status, independent=tuple(_delete_replaced(seen)))
    step = next_step(seen)
    return replace(
        plan,
        stages=stages_of(create_copies(seen, step)),
        independent=(*delete_copies(seen, step), *update_copies(seen, step)),
    )


def _requeue_after(seen: FleetObservation) -> float | None:
    """Return the seconds until something may have changed without an event."""
    left = None if isinstance(seen.goal, Problem) else upgrade_progress(seen)[2]
    retry = _BLOCKED_RETRY if seen.name_conflicts or seen.unreadable else None
    return min((each for each in (left, retry) if each is not None), default=None)


# Fields on which a fleet's planner relies: without them copies would be replaced without reason.
#
# While a definition lacks such a field, neither a copy of a fleet nor the fleet itself is written:
# a write would store it without the missing fields.

_CLUSTER: Final = (*CLUSTER_FIELDS, "workerGroupSpecs.maxReplicas", "suspend")
RELIED_ON: Final = (
    "spec.replicas",
    "spec.strategy",
    *(f"spec.strategy.{field}" for field in ("maxSurge", "maxUnavailable", "paused")),
    "spec.template",
    "spec.template.metadata",
    "spec.template.spec",
    *(f"spec.template.spec.{field}" for field in _CLUSTER),
    *(f"status.{field}" for field in ("conditions", "desiredReplicas", "templateHash")),
)
"""Fields of a fleet that decide how many copies there are, and which are replaced."""

RELIED_ON_IN_CLUSTERS: Final = (*(f"spec.{field}" for field in _CLUSTER), "status.conditions")
"""Fields of a RayCluster that are compared with the fleet's template, or show its state."""

_CONSEQUENCE: Final = (
    "RayClusterFleets are left as they are: no copy is created, changed or deleted for them"
)


def definitions_reader() -> DefinitionsReader:
    """Return a reader of what the installed definitions of fleets and RayClusters lack."""
    return DefinitionsReader(
        DefinitionReader(RAYCLUSTERFLEETS, lambda _schema: RELIED_ON, _CONSEQUENCE),
        DefinitionReader(RAYCLUSTERS, lambda _schema: RELIED_ON_IN_CLUSTERS, _CONSEQUENCE),
    )


class RayClusterFleetKind(Kind["FleetObservation"]):
    """Keeps copies of a RayCluster, and replaces them within a budget."""

    primary = RAYCLUSTERFLEETS
    owned = (Owned(RAYCLUSTERS),)
    creates = (RAYCLUSTERS,)
    optional = True

    def __init__(self, settings: RaySettings | None = None) -> None:
        self._settings = settings or RaySettings()
        self._goal_of = SpecificationMemo(self._read)
        self._unknown_fields_of = unknown_field_finder()
        self._read_definition = definitions_reader()

    def observe(self, key: str, reads: CacheReader) -> FleetObservation | None:
        """Return everything that the plan depends on; None if the fleet is gone."""
        return observe_fleet(
            key, reads, self._goal_of, self._unknown_fields_of, self._read_definition
        )

    def problem(self, observation: FleetObservation) -> Problem | None:
        """Return the problem of the fleet's specification, None if it is valid."""
        return observation.goal if isinstance(observation.goal, Problem) else None

    def plan(self, observation: FleetObservation, now: datetime) -> Plan:
        """Return the plan for the fleet."""
        return remember(plan_fleet(replace(observation, now=now)), observation.definition)

    def status_after(
        self,
        observation: FleetObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the current status, naming the first failed write."""
        if is_left_as_it_is(observation.fleet, observation.definition):
            return plan.status
        return current_status(replace(observation, now=now), failures)

    def _read(self, fleet: RayClusterFleet) -> FleetGoal | Problem:
        spec = validate_fleet(fleet, self._settings.feature_gates)
        return spec if isinstance(spec, Problem) else FleetGoal(spec, template_hash(spec.template))
