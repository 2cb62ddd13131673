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
only the user can, who may also delete the pods. Edits of an autoscaler change the generation too,
so they do not explain deletions that are already held; what it no longer needs, it names. A number
counts as explained too once no group can have more workers than it asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from controller.apimachinery.object_schema import ObjectSchema
from controller.kube.objects import Pod
from controller.ray.api.names import DELETION_HELD, PODS_UP_TO_DATE, RECREATING
from controller.ray.api.pod_state import group_of
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.upgrade_strategy import FIELD, ROLLING_UPDATE, RollingUpdate
from controller.ray.cluster.head_and_workers import workers_to_delete
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.rollout import DeletionCause, PodToDelete, Verdict
from controller.ray.cluster.upgrade import is_recreation_due, outdated_pods
from controller.runtime.definitions import REMEDY, DefinitionReader, InstalledDefinition
from controller.runtime.plan import Delete, Plan

# The deletions of pods that the installed definition of RayClusters cannot explain.
#
# A definition of another version, or an unreadable one, must not shrink a cluster.

_GROUPS: Final = "spec.workerGroupSpecs"
RELIED_ON: Final[Mapping[str, frozenset[DeletionCause]]] = {
    _GROUPS: frozenset({DeletionCause.GROUP_REMOVED, DeletionCause.SURPLUS, DeletionCause.RESIZED}),
    f"{_GROUPS}.replicas": frozenset({DeletionCause.SURPLUS}),
    f"{_GROUPS}.minReplicas": frozenset({DeletionCause.SURPLUS}),
    f"{_GROUPS}.numOfHosts": frozenset({DeletionCause.RESIZED}),
    "spec.enableInTreeAutoscaling": frozenset({DeletionCause.SURPLUS}),
}
"""The fields whose absence would delete workers, by the cause of the deletion."""


ROLLING_FIELDS: Final = frozenset(
    f"{FIELD}.rollingUpdate.{field.encode_name}" for field in msgspec.structs.fields(RollingUpdate)
)
"""The settings of a rolling update: without one of them a paused update would continue."""


def definition_reader() -> DefinitionReader:
    """Return a reader of what the installed definition of RayClusters lacks."""
    return DefinitionReader(
        RAYCLUSTERS,
        _relied_on,
        "Workers that seem surplus because of it are not deleted, and no rolling update continues",
    )


def _relied_on(schema: ObjectSchema) -> Iterator[str]:
    """Yield the fields; KubeRay's definition refuses RollingUpdate and may lack its settings."""
    yield from RELIED_ON
    if schema.accepts(f"{FIELD}.type", ROLLING_UPDATE):
        yield from (f"{FIELD}.rollingUpdate", *sorted(ROLLING_FIELDS))


def explains(definition: InstalledDefinition, cause: DeletionCause) -> bool:
    """Return whether the definition has the fields that lead to a deletion for this cause."""
    return all(cause not in RELIED_ON.get(path, ()) for path in definition.missing)


def fields_that_make_pods(definition: InstalledDefinition) -> tuple[str, ...]:
    """Return the missing fields whose change recreates all pods under `Recreate`."""
    return tuple(path for path in definition.missing if not path.startswith(FIELD))


def explains_rolling(definition: InstalledDefinition) -> bool:
    """Return whether the definition has all settings of a rolling update that it accepts."""
    return not any(path.startswith(f"{FIELD}.") for path in definition.missing)


# Doubts whether the groups in a specification are what the user wrote.


def are_groups_unexplained(seen: ClusterObservation) -> bool:
    """Return whether the groups may not be what the user wrote: no rolling update runs then."""
    return bool(fields_that_make_pods(seen.definition) or unexplained_number(seen))


def unexplained_number(seen: ClusterObservation) -> str:
    """Return why the specified number of workers is doubtful, empty if it is not."""
    generation = seen.cluster.metadata.generation
    if since := held_since(seen):
        return since
    before = seen.stored.fields.get("desiredWorkerReplicas")
    if not isinstance(before, int):
        return ""
    now = seen.desired.workers
    if now >= before:
        return ""
    if (seen.counted_generation or seen.recorded_generation) == generation:
        return (
            f"generation {generation} of the specification asked for {before} workers and now "
            f"asks for {now}, without an edit"
        )
    return ""


def held_since(seen: ClusterObservation) -> str:
    """Return why deletions stay held, whatever the numbers say; empty if they do not."""
    held = seen.condition(DELETION_HELD)
    generation = seen.cluster.metadata.generation
    if held.get("status") != "True":
        return ""
    if held.get("observedGeneration") == generation:
        return f"deletions are held since generation {generation} of the specification was observed"
    if seen.desired.spec.autoscaling:
        return f"deletions are held, and generation {generation} is perhaps an autoscaler's edit"
    return ""


def may_have_surplus(seen: ClusterObservation) -> bool:
    """Return whether a group may have more workers than specified: else no number needs explaining.

    It does not matter that another group has fewer.
    """
    room = {group.group_name: group.desired_pods for group in seen.desired.spec.worker_group_specs}
    return _may_hide_workers(seen) or any(
        sum(not pod.metadata.terminating for pod in pods) > room.get(group, 0)
        for group, pods in seen.workers.items()
    )


def _may_hide_workers(seen: ClusterObservation) -> bool:
    """Return whether there may be workers that `workers_to_delete` does not know, or leaves out."""
    return bool(seen.pending_scopes or seen.unreadable)


_EXPLAINED: Final = frozenset({DeletionCause.POD, DeletionCause.NAMED, DeletionCause.UPGRADED})
_SHOWN: Final = 3


class HeldDeletions(msgspec.Struct, frozen=True):
    """Pods that are not deleted although the specification has no room for them.

    Attributes:
        groups: their worker groups, in which nothing is created meanwhile.
        message: the held deletions, the reason and the remedy.
    """

    groups: frozenset[str]
    message: str


def divide(seen: ClusterObservation) -> tuple[list[PodToDelete], HeldDeletions | None]:
    """Return the workers to delete now, and those whose deletion is held."""
    why = unexplained_number(seen)
    allowed: list[PodToDelete] = []
    held: list[PodToDelete] = []
    for each in workers_to_delete(seen):
        is_explained = each.cause in _EXPLAINED or (
            not why and explains(seen.definition, each.cause)
        )
        (allowed if is_explained else held).append(each)
    if not held:
        return allowed, None
    why = why or f"the installed definition lacks {', '.join(seen.definition.missing)}"
    return allowed, _held([each.pod for each in held], held[0].reason, why)


def held_deletions(seen: ClusterObservation) -> HeldDeletions | None:
    """Return the held deletions of a replacement of all pods, or of single workers."""
    why = why_recreation_is_held(seen)
    if why:
        return _held(seen.live_pods, "the specification has changed", why)
    if seen.asked_rollout is not None and seen.asked_rollout.verdict is Verdict.NOT_EXPLAINED:
        names = {*outdated_pods(seen)}  # a doubtful rollout may have none
        outdated = [pod for pod in seen.live_pods if pod.metadata.name in names]
        why = "the specification was not edited since the status was written"
        rollout = _held(outdated, "they were created from another template", why)
        return rollout if outdated else divide(seen)[1] or rollout
    if not seen.definition.missing and not unexplained_number(seen):
        return None
    return divide(seen)[1] or _held_before(seen)


def _held_before(seen: ClusterObservation) -> HeldDeletions | None:
    """Return what was held before its pods were hidden: else nothing would hold it afterwards."""
    if not (_may_hide_workers(seen) and seen.is_true(DELETION_HELD)):
        return None
    message = seen.condition(DELETION_HELD).get("message") or "deletions are held"
    return HeldDeletions(frozenset(), message)


def awaits_definition(seen: ClusterObservation) -> bool:
    """Return whether the generation is new and an unknown definition may have read it."""
    if not seen.definition.awaited:
        return False
    recorded = seen.counted_generation or seen.recorded_generation
    is_new = recorded != seen.cluster.metadata.generation
    return is_new and (recorded is not None or bool(seen.workers))


def is_premature(seen: ClusterObservation, plan: Plan) -> bool:
    """Return whether the plan asks for less, and an unknown definition may have read that."""
    if not seen.definition.unverified:
        return False
    before = seen.stored.fields.get("desiredWorkerReplicas")
    is_smaller = isinstance(before, int) and seen.desired.workers < before
    rolls = seen.rollout is not None and seen.rollout.takes_away
    deletes = any(isinstance(write, Delete) for stage in plan.stages for write in stage)
    return is_smaller or rolls or deletes


def why_recreation_is_held(seen: ClusterObservation) -> str:
    """Return why not to replace all pods; empty if they may be, or if that is not due."""
    if not is_recreation_due(seen):
        return ""
    if seen.condition(PODS_UP_TO_DATE).get("reason") == RECREATING:
        return ""
    if (seen.counted_generation or seen.recorded_generation) == seen.cluster.metadata.generation:
        return "it was not edited since the status was written"
    if lost := fields_that_make_pods(seen.definition):
        return f"the installed definition lacks {', '.join(lost)}"
    return held_since(seen)


def _held(pods: Sequence[Pod], reason: str, why: str) -> HeldDeletions:
    names = sorted(pod.metadata.name for pod in pods)
    message = (
        f"{_shown(names)} would be deleted because {reason}, but {why}. "
        f"{REMEDY}; if the pods are to go, delete them, or edit the specification"
    )
    return HeldDeletions(frozenset(map(group_of, pods)), message)


def _shown(names: Sequence[str]) -> str:
    """Return how many pods there are, and the names of the first."""
    if not names:
        return "Pods"
    count = "1 pod" if len(names) == 1 else f"{len(names)} pods"
    return f"{count} ({', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''})"
