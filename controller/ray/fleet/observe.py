"""Gathers what a fleet's plan depends on, from the caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.apimachinery.custom_object import unreadable_conditions
from controller.apimachinery.ownership import is_owned_by, ownership_text
from controller.apimachinery.problem import Problem
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.fleet.copies import Copy
from controller.ray.fleet.observation import SCOPE, FleetObservation
from controller.ray.fleet.template import copy_name, index_of
from controller.ray.pods.hashes.template_hash import is_outdated
from controller.runtime.kind import owned_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.apimachinery.custom_object import SpecificationMemo
    from controller.kube.objects import ObjectMeta
    from controller.ray.api.raycluster import RayCluster
    from controller.ray.api.rayclusterfleet import RayClusterFleet
    from controller.ray.fleet.observation import FleetGoal
    from controller.runtime.kind import CacheReader, CreateError
    from controller.runtime.reconcile.definitions.installed_definition import DefinitionsReader
    from controller.runtime.reconcile.definitions.unknown_fields import UnknownFieldFinder


@dataclass(frozen=True, slots=True)
class FleetSources:
    """The sources of an observation besides the caches.

    Attributes:
        goal_of: returns the goal of a fleet, or its problem.
        unknown_fields_of: finds the unknown fields of its pod templates.
        read_definition: reads which fields the installed definitions lack.
    """

    goal_of: SpecificationMemo[RayClusterFleet, FleetGoal | Problem]
    unknown_fields_of: UnknownFieldFinder
    read_definition: DefinitionsReader


def observe_fleet(key: str, reads: CacheReader, sources: FleetSources) -> FleetObservation | None:
    """Read the fleet `namespace/name` and its copies; None if it does not exist."""
    fleet = sources.goal_of.present(key, reads.get(RAYCLUSTERFLEETS, key))
    if fleet is None:
        return None
    definition = sources.read_definition(reads, fleet)
    meta, goal = fleet.metadata, sources.goal_of(fleet)
    wanted = () if isinstance(goal, Problem) else tuple(_wanted_names(meta, goal))
    owned = owned_by(reads, RAYCLUSTERS, meta)
    copies = tuple(sorted(_copies(meta, goal, owned), key=_order))
    return FleetObservation(
        fleet,
        goal,
        copies=copies,
        name_conflicts=dict(_name_conflicts(meta, wanted, reads)),
        unreadable=dict(_unreadable(meta, wanted, copies, reads)),
        has_pending_writes=SCOPE in reads.pending_scopes(meta.uid),
        create_errors=tuple(_create_errors(meta, wanted, reads)),
        unknown_fields=sources.unknown_fields_of(fleet, reads),
        definition=definition,
        consistency_warnings=reads.consistency_warnings(meta.uid),
        clock_steady_since=reads.clock_steady_since,
    )


def _wanted_names(fleet: ObjectMeta, goal: FleetGoal) -> Iterator[str]:
    for index in range(goal.spec.replicas):
        yield copy_name(fleet, index, goal.template_hash)


def _copies(
    fleet: ObjectMeta, goal: FleetGoal | Problem, owned: list[RayCluster]
) -> Iterator[Copy]:
    for cluster in owned:
        index = index_of(fleet, cluster.metadata.name)
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
    fleet: ObjectMeta, goal: FleetGoal | Problem, cluster: RayCluster, index: int
) -> bool:
    """Return whether it was created from the present template, as far as comparable.

    A missing hash, or one of another algorithm, cannot be compared; the name shows the template
    too.
    """
    if isinstance(goal, Problem):
        return True
    if cluster.metadata.name == copy_name(fleet, index, goal.template_hash):
        return True
    stamped = (cluster.metadata.annotations or {}).get(labels.MADE_FROM)
    return not is_outdated(stamped, goal.template_hash)


def _order(copy: Copy) -> tuple[int, str, str]:
    return copy.index, copy.cluster.metadata.creation_timestamp or "", copy.name


def _name_conflicts(
    fleet: ObjectMeta, names: tuple[str, ...], reads: CacheReader
) -> Iterator[tuple[str, str]]:
    odd = reads.unreadable(RAYCLUSTERS, fleet.namespace)
    for name in names:
        if name in odd:
            continue  # reported as such
        key = f"{fleet.namespace}/{name}"
        present = reads.get(RAYCLUSTERS, key)
        if present is not None and not is_owned_by(present.metadata, fleet.uid):
            yield name, ownership_text(present.metadata)
        elif present is None and reads.has_name_conflict(RAYCLUSTERS, key):
            yield name, ownership_text(None)


def _create_errors(
    fleet: ObjectMeta, names: tuple[str, ...], reads: CacheReader
) -> Iterator[tuple[str, CreateError]]:
    for name in names:
        error = reads.create_error(RAYCLUSTERS, f"{fleet.namespace}/{name}")
        if error is not None:
            yield name, error
