"""The Rays of a life, and the truth about all that ran on them, also after they are gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from controller.ray.dashboard import Head, NoResponse
from controller.ray.dashboard.responses import JobStatus
from controller.ray.dashboard.transport import DashboardRequest, DashboardResponse
from devcluster.apiserver.store import StoredEvent
from devcluster.simulated_ray import SimulatedNodes
from devcluster.simulated_serve import Answer, SimulatedServe
from tests.ray.dashboard.simulated import NEVER, Course, Fault, Incarnation, SimulatedRay
from tests.ray.dashboard.simulated import Job as JobInRay
from tests.simulation import scenario as s

LATE_ANSWER = 1.5
"""Seconds that a slow dashboard takes; clients wait for 2."""

FAULTS = {
    "refuses": Fault.REFUSES,
    "silent": Fault.SILENT,
    "loses answers": Fault.LOSES_ANSWERS,
    "error": Fault.ERROR,
    "error json": Fault.ERROR_JSON,
    "html": Fault.HTML,
    "truncated": Fault.TRUNCATED,
    "forbidden": Fault.FORBIDDEN,
}


APPLICATIONS = {"unhealthy": "UNHEALTHY", "deploy failed": "DEPLOY_FAILED"}
"""What Serve says of each application; `hello` is the one of all configs."""


class Run(Struct, frozen=True):
    """A submission that was accepted by a head."""

    place: Incarnation
    job: JobInRay
    at: float


@dataclass
class WitnessedRay(SimulatedRay):
    """Knows what became of every job that was ever accepted.

    Attributes:
        history: all, in order.
        on_accepted: told of each one.
        answered: when each head last gave an answer that can be used, or was first asked.
        on_put: told of each config that a Serve was sent.
        forgot: whether a Ray was ever made to forget its jobs.
        work: until when nodes have work, by the uid of the pod.
    """

    history: list[Run] = field(default_factory=list)
    on_accepted: Callable[[Run], None] = lambda _run: None
    on_put: Callable[[Incarnation, dict[str, Any]], None] = lambda _place, _body: None
    answered: dict[Incarnation, float] = field(default_factory=dict)
    forgot: bool = False
    work: dict[str, float] = field(default_factory=dict)
    _failing: dict[str, tuple[str, str]] = field(default_factory=dict)
    _alive: dict[str, int] = field(default_factory=dict)  # restarts of living heads, by pod uid
    _ready: set[str] = field(default_factory=set)  # uids of the pods of ready heads
    _died: dict[Incarnation, float] = field(default_factory=dict)

    def misbehave(self, kinds: list[str]) -> None:
        """All dashboards do this from now on; the last of several faults is what one sees."""
        self.latency = lambda _head: LATE_ANSWER if "late" in kinds else 0.005
        self._failing.clear()
        for kind in filter(APPLICATIONS.__contains__, kinds):
            self._failing["hello"] = APPLICATIONS[kind], "broken"
        faults = [FAULTS[kind] for kind in kinds if kind in FAULTS]
        self.fault(faults[-1] if faults else None)

    def forget_jobs(self) -> None:
        self.forgot = True
        self._jobs.clear()

    def serve(self, place: Incarnation) -> SimulatedServe:
        """The Serve of an incarnation; applications fail in all of them alike."""
        return self._serves.setdefault(place, SimulatedServe(failing=self._failing))

    def nodes_of(self, place: Incarnation) -> SimulatedNodes:
        return self._nodes.setdefault(place, SimulatedNodes(self.work))

    def forget_serve(self) -> None:
        self._serves.clear()

    def saw(self, event: StoredEvent) -> None:
        """A transition of a head pod: Ray lives as long as its container does."""
        pod = event.current.object
        uid = pod["metadata"]["uid"]
        restarts = _running_since(pod) if event.type != "DELETED" else None
        if restarts is None:
            self._alive.pop(uid, None)
        else:
            self._alive[uid] = restarts
        conditions = pod.get("status", {}).get("conditions", ())
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        ready = ready and "deletionTimestamp" not in pod["metadata"]  # it ends any moment now
        (self._ready.add if ready and restarts is not None else self._ready.discard)(uid)
        for place in {run.place for run in self.history if run.place[1] == uid}:
            if place[2] != restarts:
                self._died.setdefault(place, self.now())

    def has_head(self, place: Incarnation) -> bool:
        """Whether this head is there and runs."""
        return self._alive.get(place[1]) == place[2]

    def has_ready_head(self, place: Incarnation) -> bool:
        """Whether this head runs on, on a node that is there, as far as anybody can know."""
        return self.has_head(place) and place[1] in self._ready

    def is_alive(self, run: Run) -> bool:
        """Whether the head still runs on which it was accepted."""
        return run.place not in self._died and run.place[1] in self._alive

    def truth(self, run: Run) -> JobStatus:
        """How the job is, or was when its head died."""
        return run.job.status(min(self.now(), self._died.get(run.place, NEVER)))

    def silent_for(self, run: Run) -> float:
        """Seconds for which the head on which it was accepted has not answered."""
        return self.now() - self.answered.get(run.place, run.at)

    def runs(self, job_id: str) -> list[Run]:
        return [run for run in self.history if run.job.id == job_id]

    async def _answered(
        self, head: Head, request: DashboardRequest, token: str
    ) -> DashboardResponse:
        place = self.live(head)
        if place is not None:
            self.answered.setdefault(place, self.now())
        return await super()._answered(head, request, token)

    def _routed(self, place: Incarnation, request: DashboardRequest) -> DashboardResponse:
        if not self.has_head(place):
            raise NoResponse(f"{request}: the head died while it was asked")
        if not self._faults:
            self.answered[place] = self.now()
        return super()._routed(place, request)

    def _served_applications(self, place: Incarnation, method: str, body: bytes | None) -> Answer:
        if method == "PUT":
            self.on_put(place, json.loads(body or b"{}"))
        return super()._served_applications(place, method, body)

    def _accept(self, place: Incarnation, body: dict[str, Any], course: Course | None) -> JobInRay:
        job = super()._accept(place, body, course)
        run = Run(place, job, self.now())
        self.history.append(run)
        self.on_accepted(run)
        return job


def course_of(fate: s.Fate) -> Course:
    """The fate in the words of the simulated Ray."""
    return Course(
        pending=NEVER if fate.result == "stuck" else fate.pending,
        running=fate.running if fate.ends else NEVER,
        result=JobStatus(fate.result) if fate.ends else JobStatus.SUCCEEDED,
    )


def _running_since(pod: dict[str, Any]) -> int | None:
    """Restarts of the Ray container, None if it does not run."""
    statuses = pod.get("status", {}).get("containerStatuses", [])
    if not statuses or "running" not in statuses[0].get("state", {}):
        return None
    return statuses[0].get("restartCount", 0)
