"""The conditions of a cluster, its phase and its resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from controller.apimachinery.conditions import (
    READY,
    ConditionSet,
    ConditionStatus,
    is_true,
    rfc3339,
    time_of,
)
from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.quantity import ZERO, Quantity
from controller.kube.objects import Pod
from controller.ray.api.names import (
    HEAD_POD_NOT_FOUND,
    HEAD_POD_READY,
    OPTIONS_IN_EFFECT,
    PODS_UP_TO_DATE,
    PROVISIONED,
    REPLICA_FAILURE,
    SUSPENDED,
    SUSPENDING,
    UPGRADING,
)
from controller.ray.api.pod_state import condition, is_ready, ray_status
from controller.ray.api.raycluster import LARGEST_INT32, ClusterSpec
from controller.ray.api.upgrade_strategy import ROLLING_UPDATE
from controller.ray.cluster.head_and_workers import live_head
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.pods import draining_since
from controller.ray.cluster.rolling_units import set_turns
from controller.ray.cluster.rollout import AT_REST, STUCK, GroupUpgrade, Rollout, Verdict
from controller.ray.diagnosis.pod import with_quote
from controller.ray.diagnosis.reasons import Cause
from controller.ray.diagnosis.writes import failure_message, failure_reason
from controller.ray.pods.environment import is_gpu, requests_of
from controller.runtime.plan import Event, Failure, PhaseDuration

# The conditions of a RayCluster, each with the rule by which it changes.
#
# `HeadPodReady`, `RayClusterProvisioned`, `ReplicaFailure` and the two about suspension are
# KubeRay's. `Ready` describes the present and names the first cause. The others are present only
# while they have something to report.


class ClusterConditions(ConditionSet):
    """The conditions of a RayCluster, each set by its own rule."""

    def set_replica_failure(self, failure: Failure | None) -> None:
        """Report pods that could not be created or deleted, with KubeRay's reason."""
        if failure is None:
            self.remove(REPLICA_FAILURE)
        else:
            self.set(
                REPLICA_FAILURE, "True", failure_reason(failure.write), failure_message(failure)
            )

    def set_head_ready(self, head: Pod | None) -> None:
        """Copy the head pod's Ready condition, with the container's reason if it has one."""
        if head is None:
            self.set(HEAD_POD_READY, "False", HEAD_POD_NOT_FOUND, "Head Pod not found")
            return
        ready = condition(head, "Ready")
        if ready is None:
            self.set(HEAD_POD_READY, "False", "Unknown", "the head pod reports nothing yet")
            return
        status: ConditionStatus = "True" if ready.status == "True" else "False"
        if ready.status == "Unknown":
            status = "Unknown"
        reason = ready.reason or ("HeadPodRunningAndReady" if status == "True" else "Unknown")
        message = ready.message
        if reason == "ContainersNotReady":
            reason, message = _container_reason(head, message)
        self.set(HEAD_POD_READY, status, reason, message)

    def set_suspension(self, suspend: bool | None, *, pods_left: bool) -> None:
        """Carry a stored Suspending through; resume only after an explicit false."""
        if self.is_true(SUSPENDING):
            if not pods_left:
                reason = "RayClusterPodsProvisioning"
                self.set(PROVISIONED, "False", reason, "RayCluster has been suspended")
                self.set(SUSPENDING, "False", SUSPENDING, "")
                self.set(SUSPENDED, "True", SUSPENDED, "")
        elif self.is_true(SUSPENDED):
            if suspend is False:
                self.set(SUSPENDED, "False", SUSPENDED, "")
        else:
            self.set(SUSPENDED, "False", SUSPENDED, "")
            self.set(SUSPENDING, "True" if suspend else "False", SUSPENDING, "")

    def set_provisioned(self, pods: Sequence[Pod], cause: Cause | None) -> None:
        """Set True once all existing pods were ready, until a suspension."""
        if self.is_true(PROVISIONED) or self.is_true(SUSPENDED):
            return
        if pods and all(map(is_ready, pods)):
            reason = "AllPodRunningAndReadyFirstTime"
            self.set(PROVISIONED, "True", reason, "All Ray Pods are ready for the first time")
        else:
            message = cause.message if cause else "RayCluster Pods are being provisioned"
            self.set(PROVISIONED, "False", "RayClusterPodsProvisioning", message)

    def set_ready(self, cause: Cause | None, surplus: str = "") -> None:
        """Set `Ready`: True if everything exists and is ready now, else the first cause.

        `surplus` explains workers beyond the specification.
        """
        if cause is None:
            message = "the head and all workers are ready"
            self.set(READY, "True", "AllPodsReady", "; ".join(filter(None, (message, surplus))))
        else:
            self.set(READY, "False", cause.reason.name, cause.message)

    def set_options_in_effect(self, pods: Sequence[str], fields: Sequence[str]) -> None:
        """Set the condition about options of the cluster that running pods were made without."""
        remedy = (
            "the change reaches new pods only. Set spec.suspend to true, and to false when no pod "
            "is left, so that all pods are created anew; upgradeStrategy Recreate does that by "
            "itself"
        )
        message = _about(pods, f"made before {' and '.join(fields)} changed", remedy)
        self.set_if(OPTIONS_IN_EFFECT, "False", "FormerOptions", message)

    def set_up_to_date(self, outdated: Sequence[str], reason: str, outlook: str) -> None:
        """Set the condition about pods with an outdated template, and what becomes of them."""
        message = _about(outdated, "created from an older template", outlook)
        self.set_if(PODS_UP_TO_DATE, "False", reason, message)


def _about(pods: Sequence[str], what: str, outlook: str) -> str:
    """Return a sentence about pods, and what becomes of them; empty without any."""
    if not pods:
        return ""
    if len(pods) == 1:
        return f"pod {pods[0]} was {what}; {outlook}"
    return f"{len(pods)} pods were {what}, first {pods[0]}; {outlook}"


def _container_reason(head: Pod, message: str) -> tuple[str, str]:
    """Return KubeRay's wording, followed by how the container last ended.

    Ray's own container comes first: an injected one often waits for the same cause.
    """
    ray = ray_status(head)
    for container in sorted(head.status.container_statuses, key=lambda each: each is not ray):
        state = container.state.waiting or container.state.terminated
        if state is None:
            continue
        clauses = [message, with_quote(container.name, state.message or state.reason)]
        last = container.last_state.terminated
        if last is not None:
            clauses.append(f"it last ended with exit code {last.exit_code} ({last.reason})")
        return state.reason or "ContainersNotReady", "; ".join(filter(None, clauses))
    return "ContainersNotReady", message


# The times until a RayCluster had its pods and until they were ready: two SLIs.

PODS_CREATED: Final = "pods_created"
"""Phase from the creation of the cluster to that of its last pod."""

PODS_READY: Final = "pods_ready"
"""Phase from the creation of the last pod until all pods were first ready."""


def provisioning_phases(
    seen: ClusterObservation, wanted: Sequence[dict[str, Any]]
) -> tuple[PhaseDuration, ...]:
    """Return the phases that end when `RayClusterProvisioned` becomes True.

    The repeated provisioning of a suspended cluster is not measured.
    """
    if seen.is_true(PROVISIONED) or not is_true(wanted, PROVISIONED):
        return ()
    if "suspended" in mapping(seen.stored.fields.get("stateTransitionTimes")):
        return ()
    created = time_of(seen.cluster.metadata.creation_timestamp)
    pods = [time_of(pod.metadata.creation_timestamp) for pod in seen.all_pods]
    if created is None or None in pods:
        return ()
    last = max(filter(None, pods))
    return (
        PhaseDuration(PODS_CREATED, _seconds(created, last)),
        PhaseDuration(PODS_READY, _seconds(last, seen.now)),
    )


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())


# What the status says of the specification: numbers of workers, and what all pods request.

_TPU = "google.com/tpu"


def reported_fields(spec: ClusterSpec) -> dict[str, Any]:
    """Return the fields; resources are canonical quantities, `"0"` when zero.

    Their sums include the head and the pods that are wanted of every group: `replicas` within its
    bounds, where KubeRay adds up what is written. Containers that the operator adds do not count.
    """
    total: dict[str, Quantity] = {"cpu": ZERO, "memory": ZERO, "gpu": ZERO, "tpu": ZERO}
    _add(total, spec.head_group_spec.template, times=1)
    for group in spec.worker_group_specs:
        _add(total, group.template, times=group.desired_pods)
    active = [group for group in spec.worker_group_specs if not group.suspend]
    return {
        "desiredWorkerReplicas": _as_int32(spec.desired_workers),
        "minWorkerReplicas": _as_int32(sum(group.least * group.hosts for group in active)),
        "maxWorkerReplicas": _as_int32(sum(group.most * group.hosts for group in active)),
        "desiredCPU": str(total["cpu"]),
        "desiredMemory": str(total["memory"]),
        "desiredGPU": str(total["gpu"]),
        "desiredTPU": str(total["tpu"]),
    }


def _as_int32(count: int) -> int:
    """Return the count, or the largest number that the field of the status can hold."""
    return min(count, LARGEST_INT32)


def _add(total: dict[str, Quantity], template: Mapping[str, Any], *, times: int) -> None:
    for name, amount in requests_of(template["spec"]["containers"]).items():
        key = "gpu" if is_gpu(name) else "tpu" if name == _TPU else name
        if key in total:
            total[key] += amount * times


# What is reported of a rolling update: `Upgrading`, `status.upgrade`, and events.

_ENDED = AT_REST - {Verdict.HEAD_NEEDS_FAULT_TOLERANCE}


def set_upgrading(conditions: ClusterConditions, seen: ClusterObservation) -> None:
    """Set True until no outdated pod is left, whatever keeps it; remove for other strategies."""
    rollout = seen.asked_rollout
    set_turns(conditions, rollout.begun if rollout is not None else ())
    if rollout is None:
        if seen.desired.spec.upgrade_strategy.rolling is None:
            conditions.remove(UPGRADING)
        return
    before = seen.condition(UPGRADING)
    if before.get("reason") == Verdict.PAUSED.value and rollout.verdict is not Verdict.PAUSED:
        conditions.remove(UPGRADING)  # the progress deadline begins anew
    status = "False" if rollout.verdict in _ENDED else "True"
    conditions.set(UPGRADING, status, rollout.verdict.value, _message(seen, rollout))


def upgrade_status(seen: ClusterObservation) -> dict[str, Any] | None:
    """Return `status.upgrade`; None while idle, or where the definition would drop it."""
    rollout = seen.asked_rollout
    keeps_it = dig(seen.cluster.spec, "upgradeStrategy", "type") == ROLLING_UPDATE
    if rollout is None or rollout.verdict is Verdict.COMPLETE or not keeps_it:
        return None
    return {"groups": [_group_status(seen, each) for each in rollout.groups.values()]}


def upgrade_events(seen: ClusterObservation) -> Iterator[Event]:
    """Yield one event for each change of the condition that users should see."""
    rollout = seen.asked_rollout
    if rollout is None:
        return
    before = seen.condition(UPGRADING)
    was_under_way = before.get("status") == "True"
    if before.get("reason") == rollout.verdict.value:
        return
    message = _message(seen, rollout)
    if rollout.verdict is Verdict.COMPLETE:
        if was_under_way:
            yield _event("UpgradeComplete", message)
        return
    if not was_under_way and rollout.verdict not in AT_REST:
        yield _event("UpgradeStarted", message)
    if rollout.verdict is Verdict.PAUSED:
        yield _event("UpgradePaused", message)
    elif rollout.verdict in STUCK:
        yield Event("Warning", "UpgradeStuck", "Reconcile", message, quotes=True)
    elif before.get("reason") == Verdict.PAUSED.value and was_under_way:
        yield _event("UpgradeResumed", message)


def _event(reason: str, note: str) -> Event:
    return Event("Normal", reason, "Reconcile", note)


def _message(seen: ClusterObservation, rollout: Rollout) -> str:
    if rollout.verdict is Verdict.COMPLETE:
        return "all pods were created from the present templates"
    counts = [
        _counts(seen, each)
        for name, each in rollout.groups.items()
        if name in rollout.begun
        or not (each.group.is_done and all(unit.up_to_date for unit in each.group.units))
    ]
    if rollout.head_is_outdated:
        head = live_head(seen)
        name = f" {head.metadata.name}" if head is not None else ""
        counts.append(f"head{name} is outdated")
    return "; ".join(filter(None, (*counts, rollout.cause)))


def _counts(seen: ClusterObservation, each: GroupUpgrade) -> str:
    status = _group_status(seen, each)
    clauses = (
        f"group {status['name']}: {status['updated']} of {status['desired']} pods updated, "
        f"{status['ready']} ready, {status['outdated']} outdated"
    )
    since = status.get("drainingSince")
    return f"{clauses}, draining since {since}" if since else clauses


def _group_status(seen: ClusterObservation, each: GroupUpgrade) -> dict[str, Any]:
    """Return the numbers of a group; a pod's own condition counts while Ray is not asked."""
    units, pods = each.group.units, each.pods
    updated = [unit.name for unit in units if unit.up_to_date and not unit.draining]
    outdated = [unit.name for unit in units if not unit.up_to_date or unit.draining]
    ready = [
        unit.name
        for unit in units
        if unit.serves
        or (unit.staying and not seen.ray.answers and all(map(is_ready, pods[unit.name])))
    ]
    status: dict[str, Any] = {
        "name": each.group.name,
        "desired": each.group.desired * each.hosts,
        "updated": _count(pods, updated),
        "ready": _count(pods, ready),
        "outdated": _count(pods, outdated),
    }
    leaving = (draining_since(pods[unit.name]) for unit in units if unit.is_leaving)
    since = min(filter(None, leaving), default=None)
    return status | ({"drainingSince": rfc3339(since)} if since is not None else {})


def _count(pods: Mapping[str, tuple[Any, ...]], names: Iterable[str]) -> int:
    return sum(len(pods[name]) for name in names)
