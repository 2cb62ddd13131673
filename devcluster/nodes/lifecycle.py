"""The life of a simulated pod: a pure function from a pod and the time to the next step.

    unbound -> ContainerCreating -> init containers -> Running -> Ready
                      |                                  |
                ErrImagePull                       exit: restarted at once, then after
                ImagePullBackOff                   CrashLoopBackOff; or Succeeded, or Failed
    terminating (from anywhere) -> containers stopped -> removed

Everything is derived from what the API server stores, so a restarted kubelet continues where it
stopped. Nothing here waits: a step that is not due yet is a `Wait`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from devcluster.nodes import containers, transitions
from devcluster.nodes.components import ANNOTATION_PREFIX, NodeSettings
from devcluster.nodes.kubelet import GATED, GATED_MESSAGE
from devcluster.nodes.pods import (
    KubeletPod,
    PodConditionType,
    PodPhase,
    ReportedContainerStatus,
    ReportedPodStatus,
)
from devcluster.nodes.transitions import StepContext

V = TypeVar("V")


class Outcome(Enum):
    """The outcomes of a simulated pod."""

    RUN = "run"
    """Becomes Ready and stays so, or crashes after `fail-after`."""
    HANG_PENDING = "hang-pending"
    """Is never bound to a node."""
    IMAGE_PULL_ERROR = "image-pull-error"
    """Never gets the image of its first container."""
    NEVER_READY = "never-ready"
    """Runs, but its readiness probe fails."""
    CRASH = "crash"
    """Its containers exit with `exit-code`; the restart policy decides what follows."""
    FAIL = "fail"
    """The pod fails as a whole whatever its restart policy, as by eviction."""
    SUCCEED = "succeed"
    """Its containers exit with 0; the restart policy decides what follows."""


class Behaviour(Struct, frozen=True):
    """The behaviour of one pod. Delays are in seconds.

    Attributes:
        exit_after: time from the start of the containers to their exit, None if they do not exit.
        container: the one container that exits, while the others run on; empty if all do.
    """

    outcome: Outcome
    start_delay: float
    ready_delay: float
    exit_after: float | None
    exit_code: int
    container: str = ""

    @classmethod
    def of(
        cls,
        annotations: Mapping[str, str] | None,
        settings: NodeSettings,
        *,
        usual: Outcome = Outcome.RUN,
    ) -> Behaviour:
        """Return the behaviour that `annotations` define; invalid values are ignored.

        `usual` is the outcome of a pod whose annotations name none.
        """
        given = annotations or {}
        exit_after = _read(given, "fail-after", _seconds, None)
        outcome = _read(given, "outcome", Outcome, usual if exit_after is None else Outcome.RUN)
        if outcome is Outcome.RUN and exit_after is not None:
            outcome = Outcome.CRASH
        exits = outcome in (Outcome.CRASH, Outcome.FAIL, Outcome.SUCCEED)
        if exits and exit_after is None:
            exit_after = settings.run_time
        return cls(
            outcome=outcome,
            start_delay=_read(given, "start-delay", _seconds, settings.start_delay),
            ready_delay=_read(given, "ready-delay", _seconds, settings.ready_delay),
            exit_after=exit_after if exits else None,
            exit_code=0 if outcome is Outcome.SUCCEED else _read(given, "exit-code", int, 1),
            container=given.get(ANNOTATION_PREFIX + "container", ""),
        )


def _read(given: Mapping[str, str], name: str, parse: Callable[[str], V], default: V) -> V:
    text = given.get(ANNOTATION_PREFIX + name)
    if text is None:
        return default
    try:
        return parse(text)
    except ValueError:
        return default


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"no length of time: {text!r}")
    return seconds


class Bind(Struct, frozen=True):
    """Bind the pod to a node."""


class ReportStatus(Struct, frozen=True):
    """Write this status."""

    status: ReportedPodStatus


class Evict(Struct, frozen=True):
    """Delete the pod with its grace period."""


class Remove(Struct, frozen=True):
    """Delete the pod without grace: its containers have stopped."""


class Wait(Struct, frozen=True):
    """Nothing is due for so many seconds."""

    seconds: float


class Rest(Struct, frozen=True):
    """Nothing is due until the pod changes."""


_MOST_AT_ONCE = 8
_TOLD_TO_STOP = 1
"""Exit code of containers that are told to stop, as of Ray's `ray start --block`."""
_INSTANT = 1e-6  # seconds; to wait for less than rounding errors of the clock would never end

Step: TypeAlias = Bind | ReportStatus | Evict | Remove | Wait | Rest


class Timer(Struct, frozen=True):
    """The start of the current wait.

    Attributes:
        name: name of the wait; a new wait has a new name even within the same second.
        start: timestamp of its start in the pod, empty if there is none.
        head_start: seconds by which the wait began before `start`.
    """

    name: str
    start: str = ""
    head_start: float = 0.0


def timer(pod: KubeletPod, *, node_lost: bool = False) -> Timer:
    """Return the current wait of `pod`."""
    meta, status = pod.metadata, pod.status
    if node_lost:
        return Timer("lost")
    if meta.deletion_timestamp:
        return Timer("terminating", meta.deletion_timestamp, _grace(pod))
    if pod.is_finished or not status.start_time:
        return Timer("nothing")
    for container in status.container_statuses:
        if container.state.waiting and container.last_state.terminated:
            name = f"back-off {container.restart_count}"
            return Timer(name, container.last_state.terminated.finished_at or "")
    started = [
        (container.state.running.started_at, container)
        for container in status.in_order
        if container.state.running and not pod.spec.is_sidecar(container.name)
    ]
    if started:
        since, last = max(started, key=lambda each: each[0])
        return Timer(f"{last.name} {last.restart_count}", since)
    return Timer("creating", status.start_time)


def next_step(
    pod: KubeletPod, behaviour: Behaviour, settings: NodeSettings, here: StepContext
) -> Step:
    """Return the next step for `pod`.

    A wait with zero delay ends as soon as it begins: the following step is reported in the same
    status write. `_MOST_AT_ONCE` bounds this for a pod that crashes without any delay.
    """
    step = _single_step(pod, behaviour, settings, here)
    for _ in range(_MOST_AT_ONCE):
        if not isinstance(step, ReportStatus):
            break
        after = replace(pod, status=step.status)
        if timer(after, node_lost=here.node_lost) != timer(pod, node_lost=here.node_lost):
            here = replace(here, elapsed=0.0)
        following = _single_step(after, behaviour, settings, here)
        if not isinstance(following, ReportStatus):
            break
        pod, step = after, following
    return step


def _single_step(  # noqa: PLR0911  one line for each stage of life
    pod: KubeletPod, behaviour: Behaviour, settings: NodeSettings, here: StepContext
) -> Step:
    if here.node_lost and pod.spec.node_name:
        return _lost(pod, settings, here)
    if pod.metadata.terminating:
        return _terminating(pod, settings, here)
    if not pod.spec.node_name:
        return _unbound(pod, behaviour, here)
    if pod.is_finished:
        return Rest()
    if not pod.status.start_time:
        return ReportStatus(transitions.accepted(pod, here))
    if not pod.status.has_run:
        return _creating(pod, behaviour, settings, here)
    if pod.status.phase != PodPhase.RUNNING:
        return _due(settings.init_delay, here) or ReportStatus(transitions.next_started(pod, here))
    going = [c for c in pod.status.container_statuses if not _is_over(c, pod.spec.restart_policy)]
    if going and all(container.state.running for container in going):
        return _running(pod, behaviour, here)
    return _backing_off(pod, settings, here)


def _is_over(container: ReportedContainerStatus, restart_policy: str) -> bool:
    """Return whether the container has ended and will not restart, while others may run."""
    end = container.state.terminated
    if end is None or restart_policy == "Always":
        return False
    return restart_policy == "Never" or end.exit_code == 0


def _unbound(pod: KubeletPod, behaviour: Behaviour, here: StepContext) -> Step:
    if pod.spec.scheduling_gates:
        reason, message = GATED, GATED_MESSAGE
    elif behaviour.outcome is Outcome.HANG_PENDING:
        reason = "Unschedulable"
        message = (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        )
    else:
        return Bind()
    condition = pod.status.condition(PodConditionType.SCHEDULED)
    if condition and (condition.status, condition.reason) == ("False", reason):
        return Rest()
    return ReportStatus(transitions.unscheduled(pod, here, reason=reason, message=message))


def _lost(pod: KubeletPod, settings: NodeSettings, here: StepContext) -> Step:
    if pod.status.is_true(PodConditionType.READY):
        return ReportStatus(transitions.out_of_reach(pod, here))
    if pod.metadata.terminating or pod.is_finished:
        return Rest()
    return _due(settings.eviction_delay, here) or Evict()


def _terminating(pod: KubeletPod, settings: NodeSettings, here: StepContext) -> Step:
    if not pod.spec.node_name:
        return Remove()
    if pod.metadata.deletion_grace_period_seconds == 0:
        return Rest()  # removed already, but held by a finalizer
    wait = _due(min(settings.termination_delay, _grace(pod)), here)
    if wait:
        return wait
    if pod.is_finished or not pod.status.start_time:
        return Remove()
    return ReportStatus(transitions.ended(pod, here, exit_code=_TOLD_TO_STOP))


def _creating(
    pod: KubeletPod, behaviour: Behaviour, settings: NodeSettings, here: StepContext
) -> Step:
    wait = _due(behaviour.start_delay, here)
    if wait:
        return wait
    if behaviour.outcome is Outcome.IMAGE_PULL_ERROR:
        return _pulling(pod, behaviour, settings, here)
    return ReportStatus(transitions.next_started(pod, here))


def _pulling(
    pod: KubeletPod, behaviour: Behaviour, settings: NodeSettings, here: StepContext
) -> Step:
    waiting = pod.status.in_order[0].state.waiting
    if waiting and waiting.reason == containers.IMAGE_BACK_OFF:
        return Rest()
    if waiting and waiting.reason == containers.IMAGE_ERROR:
        wait = _due(behaviour.start_delay + settings.image_back_off, here)
        return wait or ReportStatus(transitions.image_missing(pod, containers.IMAGE_BACK_OFF))
    return ReportStatus(transitions.image_missing(pod, containers.IMAGE_ERROR))


def _running(pod: KubeletPod, behaviour: Behaviour, here: StepContext) -> Step:
    waits: list[Wait] = []
    ended = {each.name for each in pod.status.container_statuses if each.state.terminated}
    if behaviour.exit_after is not None and behaviour.container not in ended:
        wait = _due(behaviour.exit_after, here)
        if not wait:
            return ReportStatus(_exit(pod, behaviour, here))
        waits.append(wait)
    whole = all(container.state.running for container in pod.status.container_statuses)
    may_be_ready = whole and behaviour.outcome is not Outcome.NEVER_READY
    if may_be_ready and not pod.status.is_true(PodConditionType.READY):
        wait = _due(behaviour.ready_delay, here)
        if not wait:
            return ReportStatus(transitions.ready(pod, here))
        waits.append(wait)
    return min(waits, key=lambda wait: wait.seconds, default=Rest())


def _exit(pod: KubeletPod, behaviour: Behaviour, here: StepContext) -> ReportedPodStatus:
    policy, one = pod.spec.restart_policy, behaviour.container
    if behaviour.outcome is Outcome.FAIL:
        failed = transitions.ended(pod, here, exit_code=behaviour.exit_code or 1)
        if policy == "Never":
            return failed
        return replace(failed, reason="Evicted", message="The node was low on resource: memory.")
    if policy == "Never" or (policy == "OnFailure" and behaviour.exit_code == 0):
        if one:
            return transitions.exited(pod, here, {one: behaviour.exit_code})
        return transitions.ended(pod, here, exit_code=behaviour.exit_code)
    return transitions.crashed(pod, here, exit_code=behaviour.exit_code, only=one)


def _backing_off(pod: KubeletPod, settings: NodeSettings, here: StepContext) -> Step:
    if all(container.state.terminated for container in pod.status.container_statuses):
        return Rest()
    restarts = max(container.restart_count for container in pod.status.container_statuses)
    exponent = min(max(restarts - 1, 0), 32)
    pause = min(settings.crash_back_off * 2.0**exponent, settings.crash_back_off_cap)
    return _due(pause, here) or ReportStatus(transitions.restarted(pod, here))


def _due(delay: float, here: StepContext) -> Wait | None:
    """Return None when `delay` has passed, else the rest of it."""
    remaining = delay - here.elapsed
    return Wait(remaining) if remaining > _INSTANT else None


def _grace(pod: KubeletPod) -> float:
    grace = pod.metadata.deletion_grace_period_seconds
    return 30.0 if grace is None else float(grace)
