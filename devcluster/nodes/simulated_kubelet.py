"""The simulated kubelet and scheduler: it moves every pod through `lifecycle`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from controller.kube.errors import Conflict, NotFound
from controller.kube.resources import JOBS
from devcluster.nodes import lifecycle, transitions
from devcluster.nodes.components import (
    ComponentContext,
    record_event,
    seconds_since,
    write_status,
)
from devcluster.nodes.kubelet import Kubelet, PodAddresses, is_lost, node_address
from devcluster.nodes.lifecycle import (
    Behaviour,
    Bind,
    Evict,
    Outcome,
    Remove,
    ReportStatus,
    Rest,
    Step,
    Timer,
    Wait,
)
from devcluster.nodes.objects import NODES, ScheduledNode
from devcluster.nodes.pods import PODS, KubeletPod, PodPhase, ReportedPodStatus
from devcluster.nodes.transitions import StepContext
from informers import Added, Clock, Deleted, Notification, Updated


class Programs(Protocol):
    """What runs in simulated containers that end by themselves."""

    def follows(self, key: str) -> bool:
        """Return whether a container of the pod `namespace/name` runs such a program."""
        ...

    def exits(self, key: str) -> Mapping[str, int | None]:
        """Return the exit code of each running one by container; None if it goes on."""
        ...


class MissingReference(Struct, frozen=True):
    """Something that a pod refers to and that is not there.

    Attributes:
        container: the container that cannot be created; empty if a volume cannot be mounted.
    """

    message: str
    container: str = ""


References: TypeAlias = Callable[[KubeletPod], Awaitable[MissingReference | None]]
"""Returns the first thing that a pod lacks to start; None if it may start."""


_LOOK: Final = 0.5  # seconds between two looks at programs
_RETRY: Final = 2.0  # seconds until a missing reference is looked up again


class Stopwatches:
    """One stopwatch a pod, by uid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[str, tuple[Timer, float]] = {}

    def begin(self, uid: str, timer: Timer) -> None:
        """Start the wait `timer` now, unless it runs already."""
        present = self._running.get(uid)
        if present is None or present[0] != timer:
            self._running[uid] = (timer, self._clock.time())

    def elapsed(self, uid: str, timer: Timer, now: datetime) -> float:
        """Return the seconds since `timer` began, by its timestamp if its start was not seen."""
        past = max(0.0, seconds_since(timer.start, now) + timer.head_start)
        running, began = self._running.setdefault(uid, (timer, self._clock.time() - past))
        return self._clock.time() - began if running == timer else past

    def forget(self, uid: str) -> None:
        """Drop the stopwatch of a pod that is gone."""
        self._running.pop(uid, None)


_BY_NODE = "node"


class SimulatedKubelet(Kubelet):
    """Binds pods, and reports the status of pods on its nodes.

    Args:
        programs: what runs in containers; without it, pods of Jobs succeed.
        references: looks up what pods refer to; None to start them without it.
    """

    def __init__(
        self,
        context: ComponentContext,
        programs: Programs | None = None,
        references: References | None = None,
    ) -> None:
        super().__init__(context)
        self._programs = programs
        self._references = references
        self._client = context.client
        self._settings = context.settings
        self._wall = context.wall
        self._addresses = PodAddresses()
        self._stopwatches = Stopwatches(context.clock)
        pods = context.caches.informer(PODS)
        self._pods = pods.lister
        pods.add_index(_BY_NODE, lambda pod: (pod.spec.node_name,))
        pods.add_handler(self._on_pod, name="kubelet")
        context.caches.informer(NODES).add_handler(self._on_node, name="kubelet")

    def _on_pod(self, change: Notification[KubeletPod]) -> None:
        match change:
            case Added(pod, initial):
                if pod.status.pod_ip and not pod.spec.host_network:
                    self._addresses.hold(pod.metadata.uid, pod.status.pod_ip)
                if not initial:  # the wait of an initial one is timed by its timestamps
                    self._stopwatches.begin(pod.metadata.uid, self._timer(pod))
                self._loop.add(pod.metadata.key)
            case Updated(old, new):
                self._follow(old, new)
                self._loop.add(new.metadata.key)
                if new.is_finished and not old.is_finished:
                    self.may_fit_now()
            case Deleted(pod):
                self._addresses.release(pod.metadata.uid)
                self._stopwatches.forget(pod.metadata.uid)
                self.may_fit_now()

    def _on_node(self, change: Notification[ScheduledNode]) -> None:
        match change:
            case Added(node, initial):
                self._enqueue_pods(node.metadata.name, initial=initial)
            case Updated(old, new):
                if is_lost(old) != is_lost(new):
                    self._enqueue_pods(new.metadata.name)
                elif _offer(old) != _offer(new):
                    self.may_fit_now()
            case Deleted(node):
                self._enqueue_pods(node.metadata.name)

    def _enqueue_pods(self, name: str, *, initial: bool = False) -> None:
        for node in (name, ""):
            for pod in self._pods.by_index(_BY_NODE, node):
                if not initial:
                    self._stopwatches.begin(pod.metadata.uid, self._timer(pod))
                self._loop.add(pod.metadata.key)

    # One pod.

    async def _sync(self, key: str, /) -> float | None:
        pod = self._pods.get(key)
        if pod is None or not self._is_ours(pod):
            return None
        try:
            return await self._take(self._next_step(pod), pod)
        except (NotFound, Conflict):
            return None  # the pod has changed or is deleted: its event enqueues the key again

    def _is_ours(self, pod: KubeletPod) -> bool:
        node = pod.spec.node_name
        return not node or self.serves(node)

    def _timer(self, pod: KubeletPod) -> lifecycle.Timer:
        return lifecycle.timer(pod, node_lost=self.nodes.is_lost(pod.spec.node_name))

    def _follow(self, old: KubeletPod, new: KubeletPod) -> None:
        if self._timer(old) != self._timer(new):
            self._stopwatches.begin(new.metadata.uid, self._timer(new))

    def _next_step(self, pod: KubeletPod) -> Step:
        now = self._wall()
        uid, node = pod.metadata.uid, pod.spec.node_name
        host_ip = node_address(self.nodes.number(node) or 0)
        here = StepContext(
            now=now,
            elapsed=self._stopwatches.elapsed(uid, self._timer(pod), now),
            pod_ip=host_ip if pod.spec.host_network else self._addresses.of(uid),
            host_ip=host_ip,
            node_lost=self.nodes.is_lost(node),
        )
        owner = pod.metadata.controller
        follows = self._programs is not None and self._programs.follows(pod.metadata.key)
        ends = owner is not None and owner.kind == JOBS.kind and not follows
        usual = Outcome.SUCCEED if ends else Outcome.RUN
        behaviour = Behaviour.of(pod.metadata.annotations, self._settings, usual=usual)
        step = lifecycle.next_step(pod, behaviour, self._settings, here)
        waits = pod.status.phase == PodPhase.RUNNING and not pod.metadata.terminating
        if follows and waits and isinstance(step, Wait | Rest):
            return self._look(pod, step, here)
        return step

    def _look(self, pod: KubeletPod, step: Wait | Rest, here: StepContext) -> Step:
        """Return the step that follows from the programs of the pod."""
        assert self._programs is not None
        running = self._programs.exits(pod.metadata.key)
        if codes := {name: code for name, code in running.items() if code is not None}:
            return ReportStatus(transitions.exited(pod, here, codes))
        if not running:
            return step
        return Wait(min(step.seconds, _LOOK) if isinstance(step, Wait) else _LOOK)

    async def _take(self, step: Step, pod: KubeletPod) -> float | None:
        match step:
            case Wait(seconds):
                return seconds
            case Rest():
                return None
            case Bind():
                await self.place(pod)
            case ReportStatus(status):
                starts = status.has_run and not pod.status.has_run
                looks = self._references if starts else None
                if looks is not None and (missing := await looks(pod)):
                    await self._report_missing(pod, missing)
                    return _RETRY
                await self._report(pod, status)
            case Evict():
                await self._delete(pod, grace_seconds=None)
            case Remove():
                await self._delete(pod, grace_seconds=0)
        return None

    async def _report_missing(self, pod: KubeletPod, missing: MissingReference) -> None:
        """Report why a container does not start; nothing new is written again."""
        if not missing.container:
            about, now = missing.message, self._wall()
            await record_event(
                self._client,
                PODS,
                pod.metadata,
                reason="FailedMount",
                message=about,
                component="kubelet",
                now=now,
            )
            return
        status = transitions.not_created(pod, missing.container, missing.message)
        if status != pod.status:
            await self._report(pod, status)

    async def _report(self, pod: KubeletPod, status: ReportedPodStatus) -> None:
        answer = await write_status(self._client, PODS, pod.metadata, pod.status, status)
        if answer is not None:
            self._follow(pod, answer)

    async def _delete(self, pod: KubeletPod, *, grace_seconds: int | None) -> None:
        meta = pod.metadata
        await self._client.delete(
            PODS, meta.namespace, meta.name, uid=meta.uid, grace_seconds=grace_seconds
        )


def _offer(node: ScheduledNode) -> object:
    """Return what decides about the pods that a node takes."""
    return (node.metadata.labels, node.spec, node.status.allocatable)
