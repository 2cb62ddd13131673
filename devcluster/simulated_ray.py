"""A Ray in memory: the jobs, nodes and Serve of any number of heads.

It answers as real Ray 2.60 was recorded to, by the time of the running event loop, so that jobs
run in virtual time too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from controller.ray.dashboard import PURPOSE
from controller.ray.dashboard.own_job import REASON_MESSAGE
from controller.ray.dashboard.responses import JobStatus
from devcluster.simulated_serve import (
    Answer,
    SimulatedServe,
    json_answer,
    no_such_job,
    refused_by_agent,
    text_answer,
)

# The nodes of a simulated Ray: they join with their pods, and end when they are drained.
#
# As real Ray 2.60 does it: a node without work that is drained is dead at once, and its container
# goes on running; one with work takes nothing new and is dead when its work has ended, which for
# an actor may be never. Nothing happens at the deadline.


class NodePod(Struct, frozen=True):
    """A Ray container that has joined. Another start of it is another node."""

    uid: str
    address: str
    started: datetime
    restarts: int = 0
    head: bool = False

    @property
    def node_id(self) -> str:
        """Ray's id of the node."""
        return hashlib.sha224(f"{self.uid}-{self.restarts}".encode()).hexdigest()


@dataclass
class SimulatedNodes:
    """The nodes of one head incarnation.

    Attributes:
        work: until when a node has work, by the uid of its pod.
        drained: when each node was told to drain, by its id.
    """

    work: dict[str, float] = field(default_factory=dict[str, float])
    drained: dict[str, float] = field(default_factory=dict[str, float])
    _known: dict[str, NodePod] = field(default_factory=dict[str, NodePod])

    def drain(self, body: dict[str, Any], at: float) -> None:
        """Let the nodes drain that a job names, which succeeds at this time."""
        for node in drained_by(body):
            self.drained[node] = min(at, self.drained.get(node, at))

    def state(self, pods: Iterable[NodePod], now: float) -> Answer:
        """Return the answer to `GET /api/v0/nodes`."""
        present = {pod.node_id: pod for pod in pods}
        self._known |= present
        rows = [
            self._row(node, pod, now, present=node in present)
            for node, pod in sorted(self._known.items())
        ]
        listing = {"total": len(rows), "result": rows}
        body = {"result": True, "msg": "", "data": {"result": listing}}
        return json_answer(body)

    def _row(self, node: str, pod: NodePod, now: float, *, present: bool) -> dict[str, Any]:
        told = self.drained.get(node)
        ended = told is not None and max(told, self.work.get(pod.uid, told)) <= now
        reason = f"Terminated due to preemption: {REASON_MESSAGE}" if ended else "Unexpected"
        alive = present and not ended
        return {
            "node_id": node,
            "node_ip": pod.address,
            "is_head_node": pod.head,
            "state": "ALIVE" if alive else "DEAD",
            "state_message": None if alive else reason,
            "start_time_ms": int(pod.started.timestamp() * 1000),
        }


def drained_by(body: dict[str, Any]) -> list[str]:
    """Return the nodes that a submitted job drains; none if it does something else."""
    metadata: dict[str, str] = body.get("metadata") or {}
    if metadata.get(PURPOSE) != "drain":
        return []
    return shlex.split(body["entrypoint"])[5:]


EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
VERSION: Final = "2.60.0"
NEVER: Final = float("inf")
STOPPING: Final = 2.6
"""Seconds from a stop until the status says so, as real Ray took."""

Incarnation = tuple[str, str, int]
"""One start of a head: uid of its cluster, uid of its pod, restarts."""


class Course(Struct, frozen=True):
    """How a job goes: seconds and result.

    `pending=NEVER`: it waits for resources, and a stop does not end it. `running=NEVER`: it runs
    until it is told otherwise.
    """

    pending: float = 1.0
    running: float = 10.0
    result: JobStatus = JobStatus.SUCCEEDED
    message: str = ""


@dataclass
class Job:
    """A job as a simulated Ray knows it."""

    id: str
    body: dict[str, Any]
    course: Course
    accepted: float
    stop_asked: float | None = None
    ended: tuple[float, JobStatus, str] | None = None

    def status(self, now: float) -> JobStatus:
        """Return its status at this time."""
        return self._state(now)[0]

    def _state(self, now: float) -> tuple[JobStatus, float | None, str]:
        if self.ended is not None and self.ended[0] <= now:
            end, status, message = self.ended
            return status, end, message
        begins = self.accepted + self.course.pending
        ends = begins + self.course.running
        stops = NEVER
        if self.stop_asked is not None and self.course.pending != NEVER:
            stops = self.stop_asked + STOPPING
        if stops <= now and stops < ends:
            return JobStatus.STOPPED, stops, "Job was intentionally stopped."
        if now >= ends:
            return self.course.result, ends, self.course.message or end_message(self.course.result)
        if now >= begins:
            return JobStatus.RUNNING, None, "Job is currently running."
        return JobStatus.PENDING, None, "Job has not started yet."

    def described(self, now: float, epoch: datetime = EPOCH) -> dict[str, Any]:
        """Return Ray's record of it."""
        status, end, message = self._state(now)
        failed = status is JobStatus.FAILED
        return {
            "type": "SUBMISSION",
            "job_id": None if status is JobStatus.PENDING else "02000000",
            "submission_id": self.id,
            "status": status.value,
            "entrypoint": self.body["entrypoint"],
            "metadata": self.body.get("metadata"),
            "runtime_env": self.body.get("runtime_env"),
            "message": message,
            "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR" if failed else None,
            "start_time": _milliseconds(epoch, self.accepted),
            "end_time": None if end is None else _milliseconds(epoch, end),
            "driver_exit_code": {JobStatus.SUCCEEDED: 0, JobStatus.FAILED: 1}.get(status),
        }


@dataclass
class SimulatedRay:
    """All Rays of a cluster of Kubernetes.

    A head incarnation that was not seen before is a new Ray without jobs.

    Attributes:
        course: of a job, by its submission body; `courses` overrides it by submission id.
        pods: the pods of an incarnation whose containers have joined as nodes.
        nodes: IP addresses of the pods of an incarnation that have a Serve proxy.
        drain_course: of the jobs that drain nodes or close connections.
        version: of Ray, by incarnation.
        epoch: time of day when the loop's clock showed 0.
        accepted: each accepted submission in order: incarnation and id.
    """

    course: Callable[[dict[str, Any]], Course] = lambda _body: Course()
    nodes: Callable[[Incarnation], Iterable[str]] = lambda _place: ("10.88.0.2",)
    pods: Callable[[Incarnation], Iterable[NodePod]] = lambda _place: ()
    drain_course: Course = field(default_factory=lambda: Course(pending=1.0, running=2.0))
    version: Callable[[Incarnation], str] = lambda _place: VERSION
    epoch: datetime = EPOCH
    courses: dict[str, Course] = field(default_factory=dict[str, Course])
    accepted: list[tuple[Incarnation, str]] = field(default_factory=list[tuple[Incarnation, str]])
    _jobs: dict[Incarnation, dict[str, Job]] = field(
        default_factory=lambda: defaultdict[Incarnation, dict[str, Job]](dict)
    )
    _serves: dict[Incarnation, SimulatedServe] = field(
        default_factory=dict[Incarnation, SimulatedServe]
    )
    _nodes: dict[Incarnation, SimulatedNodes] = field(
        default_factory=dict[Incarnation, SimulatedNodes]
    )

    _drivers: dict[Incarnation, float | None] = field(
        default_factory=dict[Incarnation, "float | None"]
    )
    """When the last driver of an incarnation ended; None while one is connected."""

    def serve(self, place: Incarnation) -> SimulatedServe:
        """Return the Serve of an incarnation; a new one has deployed nothing."""
        return self._serves.setdefault(place, SimulatedServe())

    def nodes_of(self, place: Incarnation) -> SimulatedNodes:
        """Return the nodes of an incarnation, and what they do."""
        return self._nodes.setdefault(place, SimulatedNodes())

    def job_at(self, place: Incarnation, job_id: str) -> Job | None:
        """Return a job of an incarnation."""
        return self._jobs.get(place, {}).get(job_id)

    @staticmethod
    def now() -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def answer(self, place: Incarnation, method: str, path: str, body: bytes | None) -> Answer:
        """Return the dashboard's answer to a request."""
        match [method, *path.strip("/").split("/")]:
            case ["GET", "api", "version" | "gcs_healthz" | "v0" | "component_activities", *_]:
                return self._described(place, path)
            case ["POST", "api", "jobs"]:
                return self.submit(place, json.loads(body or b"{}"))
            case ["GET", "api", "jobs"]:
                jobs = self._jobs[place].values()
                return json_answer([job.described(self.now(), self.epoch) for job in jobs])
            case [_, "api", "serve", "applications"]:
                return self._served_applications(place, method, body)
            case [_, "api", "jobs", job_id, *rest]:
                job = self.job_at(place, job_id)
                return self._about(place, job, method, rest) if job else no_such_job(job_id)
            case _:
                return text_answer(404, "404: Not Found")

    def submit(self, place: Incarnation, body: dict[str, Any]) -> Answer:
        """Accept a job, or refuse it."""
        if not body.get("entrypoint"):
            return text_answer(400, "TypeError: missing required argument: 'entrypoint'")
        job_id = body.get("submission_id") or f"raysubmit_{len(self.accepted):016d}"
        if job_id in self._jobs[place]:
            return refused_by_agent(
                f"Job with submission_id {job_id} already exists. Please use a different "
                "submission_id"
            )
        self._accept(place, {**body, "submission_id": job_id}, None)
        return json_answer({"job_id": job_id, "submission_id": job_id})

    def _actors(self, place: Incarnation) -> Answer:
        serves = place in self._serves and self._serves[place].puts
        found = [{"class_name": "ServeController", "state": "ALIVE"}] if serves else []
        listing = {"total": len(found), "result": found}
        return json_answer({"result": True, "msg": "", "data": {"result": listing}})

    def _activities(self, place: Incarnation) -> Answer:
        ended = self._drivers.get(place, math.nan)
        last = None if ended is None or math.isnan(ended) else _seconds(self.epoch, ended)
        driver = {
            "is_active": "ACTIVE" if ended is None else "INACTIVE",
            "reason": "Number of active drivers: 1" if ended is None else None,
            "timestamp": _seconds(self.epoch, self.now()),
            "last_activity_at": last,
        }
        return json_answer({"driver": driver})

    def _described(self, place: Incarnation, path: str) -> Answer:
        if path.endswith("/v0/actors"):
            return self._actors(place)
        if "/v0/" in path:
            return self.nodes_of(place).state(self.pods(place), self.now())
        if path.endswith("/component_activities"):
            return self._activities(place)
        if path.endswith("/version"):
            session = "-".join(map(str, place))
            return json_answer(
                {"version": "4", "ray_version": self.version(place), "session_name": session}
            )
        return Answer(200, "application/text", b"success")

    def _served_applications(self, place: Incarnation, method: str, body: bytes | None) -> Answer:
        serve = self.serve(place)
        if method == "PUT":
            return serve.put(body or b"", self.now())
        return serve.state(self.nodes(place), self.now())

    def _accept(self, place: Incarnation, body: dict[str, Any], course: Course | None) -> Job:
        job_id = body["submission_id"]
        own = PURPOSE in (body.get("metadata") or {})
        usual = self.drain_course if own else self.course(body)
        chosen = course or self.courses.get(job_id) or usual
        job = self._jobs[place][job_id] = Job(job_id, body, chosen, self.now())
        if drained_by(body) and chosen.result is JobStatus.SUCCEEDED:
            self.nodes_of(place).drain(body, self.now() + chosen.pending + chosen.running)
        self.accepted.append((place, job_id))
        return job

    def _about(self, place: Incarnation, job: Job, method: str, rest: list[str]) -> Answer:
        ended = job.status(self.now()).terminal
        match (method, *rest):
            case ("GET",):
                return json_answer(job.described(self.now(), self.epoch))
            case ("GET", "logs"):
                return json_answer({"logs": f"{job.described(self.now())['message']}\n"})
            case ("POST", "stop"):
                if not ended and job.stop_asked is None:
                    job.stop_asked = self.now()
                return json_answer({"stopped": not ended})
            case ("DELETE",) if not ended:
                return refused_by_agent(f"Attempted to delete job '{job.id}', but it is running")
            case ("DELETE",):
                del self._jobs[place][job.id]
                return json_answer({"deleted": True})
            case _:
                return text_answer(405, "405: Method Not Allowed")


def end_message(status: JobStatus) -> str:
    """Return Ray's message about a job that has ended so."""
    if status is JobStatus.FAILED:
        return "Job entrypoint command failed with exit code 1, last available logs:\nboom\n"
    return {JobStatus.SUCCEEDED: "Job finished successfully."}.get(status, "")


def _seconds(epoch: datetime, at: float) -> float:
    return (epoch + timedelta(seconds=at)).timestamp()


def _milliseconds(epoch: datetime, at: float) -> int:
    return int((epoch + timedelta(seconds=at)).timestamp() * 1000)
