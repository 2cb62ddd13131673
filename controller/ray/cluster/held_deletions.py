"""Unexplained deletions, which are held and reported instead of carried out.

The API server drops fields that its definition of RayClusters lacks, even from stored objects. A
group, or the number of hosts of its replicas, then vanishes from a specification that was not
edited. An edit changes the generation; a changed definition does not. So a worker is deleted for a
number in the specification only if that number is explained:

* by the generation: it is newer than the one of the status, or the status of this generation
  already counted as few workers;
* and by the installed definition, which must have the fields that the number is made of. Until it
  is certain by which definition a newer generation was read, deletions wait: its watch may be new,
  or its edit newer than the schema and ask for less. If the last definition read lacks such a
  field, the deletions are held at once.

A replacement of all pods under `Recreate` follows from the specification as a whole. It is held if
the specification was not edited, or if the definition that has read the edit lacks a field of it.

What a pod's own state or `workersToDelete` demands needs no explanation. Deletions stay held while
the generation is the same: a definition that is complete again does not restore dropped fields;
only the user can. Edits of an autoscaler change the generation too, so they do not explain
deletions that are already held. A confirmation applies to the specification as it was read: it
explains nothing that a definition drops later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.custom_object import status_of
from controller.ray.api.cluster_condition_types import (
    PODS_UP_TO_DATE,
    RECREATING,
)
from controller.ray.api.pod_state import group_of
from controller.ray.cluster.doubts.confirmation import confirming_command, is_confirmed
from controller.ray.cluster.doubts.definition import explains, fields_that_make_pods
from controller.ray.cluster.doubts.doubt import (
    held_since,
    recorded_generation,
    unexplained_number,
)
from controller.ray.cluster.observed.pod_to_delete import DeletionCause
from controller.ray.cluster.observed.rollout import Verdict
from controller.ray.cluster.upgrade import outdated_pods, strategy_of
from controller.ray.cluster.workers.writes import workers_to_delete
from controller.runtime.plan import Delete
from controller.runtime.reconcile.definitions.installed_definition import REMEDY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controller.kube.objects import Pod
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.ray.cluster.observed.pod_to_delete import PodToDelete
    from controller.ray.settings import ClusterSettings
    from controller.runtime.plan import Plan

_EXPLAINED: Final = frozenset({DeletionCause.POD, DeletionCause.NAMED, DeletionCause.UPGRADED})
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class HeldDeletions:
    """Pods that are not deleted although the specification has no room for them.

    Attributes:
        pods: names of the pods.
        groups: their worker groups, in which nothing is created meanwhile.
        message: the held deletions, the reason and the remedy.
    """

    pods: tuple[str, ...]
    groups: frozenset[str]
    message: str


def divide(
    seen: ClusterObservation, desired: DesiredCluster, settings: ClusterSettings
) -> tuple[list[PodToDelete], HeldDeletions | None]:
    """Return the workers to delete now, and those whose deletion is held."""
    doubt = unexplained_number(seen, desired)
    allowed: list[PodToDelete] = []
    held: list[PodToDelete] = []
    for each in workers_to_delete(seen, desired, settings):
        is_explained = each.cause in _EXPLAINED or (not doubt and _is_defined(seen, each))
        (allowed if is_explained else held).append(each)
    if not held:
        return allowed, None
    doubt = doubt or f"the installed definition lacks {', '.join(seen.definition.missing)}"
    return allowed, _held(seen, (each.pod for each in held), held[0].reason, doubt)


def held_deletions(
    seen: ClusterObservation, desired: DesiredCluster, settings: ClusterSettings
) -> HeldDeletions | None:
    """Return the held deletions of a replacement of all pods, or of single workers."""
    doubt = doubt_of_recreation(seen, desired)
    if doubt:
        return _held(seen, seen.all_pods, "the specification has changed", doubt)
    if _is_rollout_unexplained(seen, desired):
        outdated = _outdated(seen, desired)
        doubt = "the specification was not edited since the status was written"
        rollout = _held(seen, outdated, "they were created from another template", doubt)
        return rollout if outdated else divide(seen, desired, settings)[1] or rollout
    if not seen.definition.missing and not unexplained_number(seen, desired):
        return None
    return divide(seen, desired, settings)[1]


def awaits_definition(seen: ClusterObservation) -> bool:
    """Return whether the generation is new and an unknown definition may have read it."""
    if not seen.definition.awaited or is_confirmed(seen.cluster):
        return False
    recorded = recorded_generation(seen)
    is_new = recorded != seen.cluster.metadata.generation
    return is_new and (recorded is not None or bool(seen.workers))


def is_premature(seen: ClusterObservation, desired: DesiredCluster, plan: Plan) -> bool:
    """Return whether the plan asks for less, and an unknown definition may have read that."""
    if not seen.definition.unverified or is_confirmed(seen.cluster):
        return False
    before = status_of(seen.cluster).get("desiredWorkerReplicas")
    is_smaller = isinstance(before, int) and desired.spec.desired_workers < before
    rolls = seen.rollout is not None and seen.rollout.takes_away
    deletes = any(isinstance(write, Delete) for stage in plan.stages for write in stage)
    return is_smaller or rolls or deletes


def doubt_of_recreation(seen: ClusterObservation, desired: DesiredCluster) -> str:
    """Return why not to replace all pods; empty if they may be, or if that is not due."""
    if not strategy_of(desired.spec).is_due(seen, desired) or is_confirmed(seen.cluster):
        return ""
    if (find_condition(seen.conditions, PODS_UP_TO_DATE) or {}).get("reason") == RECREATING:
        return ""
    if recorded_generation(seen) == seen.cluster.metadata.generation:
        return "it was not edited since the status was written"
    if lost := fields_that_make_pods(seen.definition):
        return f"the installed definition lacks {', '.join(lost)}"
    return held_since(seen)


def _is_rollout_unexplained(seen: ClusterObservation, desired: DesiredCluster) -> bool:
    """Return whether a rollout lacks an explanation; other strategies only drain."""
    return (
        desired.spec.upgrade_strategy.rolling is not None
        and seen.rollout is not None
        and seen.rollout.verdict is Verdict.NOT_EXPLAINED
    )


def _outdated(seen: ClusterObservation, desired: DesiredCluster) -> list[Pod]:
    """Return the outdated pods that are not terminating; a doubtful rollout may have none."""
    names = set(outdated_pods(seen, desired))
    return [
        pod for pod in seen.all_pods if pod.metadata.name in names and not pod.metadata.terminating
    ]


def _is_defined(seen: ClusterObservation, each: PodToDelete) -> bool:
    return explains(seen.definition, each.cause) or is_confirmed(seen.cluster)


def _held(seen: ClusterObservation, pods: Iterable[Pod], reason: str, doubt: str) -> HeldDeletions:
    found = [pod for pod in pods if not pod.metadata.terminating]
    names = tuple(sorted(pod.metadata.name for pod in found))
    message = (
        f"{_shown(names)} would be deleted because {reason}, but {doubt}. "
        f"{REMEDY}; if the pods are to be deleted, confirm it: {confirming_command(seen.cluster)}"
    )
    return HeldDeletions(names, frozenset(map(group_of, found)), message)


def _shown(names: Sequence[str]) -> str:
    """Return how many pods there are, and the names of the first."""
    if not names:
        return "Pods"
    count = "1 pod" if len(names) == 1 else f"{len(names)} pods"
    return f"{count} ({', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''})"
