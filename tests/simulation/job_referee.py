"""Watches every transition of RayJobs and their clusters, and every submission that Ray accepts.

Like `referee.py` it sees the truth at once. A cluster is judged by the RayJob as the operator had
observed it when it first planned that cluster, and by all later states of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from controller.apimachinery.conditions import READY, find_condition
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from controller.ray.api.labels import CLUSTER, HEAD, NODE_TYPE
from controller.ray.dashboard.responses import JobStatus
from controller.ray.job.observation import JobObservation
from controller.runtime.plan import Create, Plan
from devcluster.apiserver.store import StoredEvent
from tests.simulation.disruptions import is_taken_away
from tests.simulation.operators import JOB_SETTINGS
from tests.simulation.referee import ACTOR, LATE
from tests.simulation.witnessed_ray import Run, WitnessedRay

TERMINAL = frozenset({"Complete", "Failed"})
ENDED = frozenset({"STOPPED", "SUCCEEDED", "FAILED"})
"""What Ray says of a job that has ended."""

ATTEMPT = frozenset({"Initializing", "Waiting", "Running"})
NOT_RETRIABLE = frozenset({"DeadlineExceeded", "ValidationFailed", "JobStatusCheckTimeoutExceeded"})
FOLLOWS = {
    "": {"Initializing", "Suspended"},
    "Initializing": {"Running", "Suspending", "Retrying", "Failed"},
    "Running": {"Complete", "Suspending", "Retrying", "Failed"},
    "Retrying": {""},
    "Suspending": {"Suspended"},
    "Suspended": {""},
}
"""All jobs here are valid, and none waits for a person."""

WHOLE_SECONDS = 1.0
"""Times in a status are cut to seconds, so that a time limit may end this much earlier."""

UNREACHABLE = frozenset({"HeadLost", "JobStatusCheckTimeoutExceeded"})
"""Causes that say that nobody can know any more how the job ends."""

UNDER_WAY = 10.0
"""Seconds for which a submission may be under way."""


class Seen(Struct, frozen=True):
    """A RayJob at one moment.

    Attributes:
        says: what it says of Ray.
        cause: the reason of `Ready`.
        lost: whether its last attempt has lost its head.
    """

    revision: int
    time: float
    suspend: bool
    deleting: bool
    state: str
    cluster: str
    job_id: str
    says: str
    reason: str
    cause: str
    failed: int
    disrupted: int
    lost: bool
    succeeded: int

    @property
    def may_have_cluster(self) -> bool:
        return self.state == "Initializing" and not (self.suspend or self.deleting)


@dataclass
class JobHistory:
    """A RayJob through its states.

    Attributes:
        seen: all states, the first being the creation.
        attempts: names of clusters by submission ids, as the status had them.
        spared: how many attempts may lose their head to others and not count.
        made: names of the clusters that were made.
        taken: names of those that somebody else has deleted.
        resumes: how often `suspend` was taken back.
    """

    name: str
    backoff: int
    spared: int
    mode: str
    present: bool = True
    seen: list[Seen] = field(default_factory=list)
    attempts: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    resumes: int = 0


class JobReferee:
    """Keeps its own books of RayJobs.

    Attributes:
        jobs: all RayJobs that ever were, by uid.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ray: WitnessedRay,
        violations: list[str],
        *,
        strict: bool = True,
        calm: bool = False,
    ) -> None:
        self._loop = loop
        self._ray = ray
        self._strict = strict
        self._calm = calm
        self._disrupted: set[str] = set()  # names of clusters whose head others have taken away
        self._intents: dict[tuple[str, str], int] = {}
        self._clusters: dict[str, tuple[str, str]] = {}  # owner and name of live ones, by uid
        self._names: dict[str, str] = {}  # of all clusters of jobs, by uid
        self._late: set[str] = set()
        self._accepted: dict[str, Run] = {}
        self.violations = violations
        self.jobs: dict[str, JobHistory] = {}

    # -- what it is told ----------------------------------------------------------------------

    def __call__(self, event: StoredEvent) -> None:
        if event.table == str(RAYJOBS):
            self._job(event)
        elif event.table == str(RAYCLUSTERS):
            owner = _owner(event.current.object)
            if owner in self.jobs:
                self._cluster(event, owner)
        elif event.table == "pods" and is_taken_away(event.current.object):
            found = event.current.object["metadata"]["labels"]
            if found.get(NODE_TYPE) == HEAD:
                self._disrupted.add(found[CLUSTER])

    def planned(self, seen: JobObservation, plan: Plan) -> None:
        """An operator has decided; what it has decided before counts from then."""
        meta = seen.job.metadata
        for stage in plan.stages:
            for write in stage:
                if isinstance(write, Create) and write.target.resource is RAYCLUSTERS:
                    key = (meta.uid, write.target.name)
                    self._intents.setdefault(key, int(meta.resource_version))

    def owner_of(self, job_id: str) -> tuple[str, int] | None:
        """Uid of the job whose status has had this submission id, and its number among them."""
        for uid, history in self.jobs.items():
            if job_id in history.attempts:
                return uid, list(history.attempts).index(job_id)
        return None

    def accepted(self, run: Run) -> None:
        """Ray has accepted a submission."""
        job_id = run.job.id
        found = self.owner_of(job_id)
        if found is None:
            self._blame(f"{job_id} was submitted, and no status has this id")
            return
        history = self.jobs[found[0]]
        running = [each for each in history.seen if each.job_id == job_id]
        earlier = self._accepted.get(job_id)
        if earlier is not None and not self._was_forgotten(earlier, run, running):
            self._blame(f"{job_id} was accepted twice, by {earlier.place} before")
        self._accepted[job_id] = run
        if self._names.get(run.place[0]) != history.attempts[job_id]:
            self._blame(f"{job_id} was submitted to cluster {self._names.get(run.place[0])}")
        last = running[-1]
        left = next((s.time for s in history.seen if s.revision > last.revision), None)
        over = left if last.state == "Running" else last.time
        if history.mode == "HTTPMode" and over is not None and self._loop.time() - over > UNDER_WAY:
            self._blame(f"{job_id} was submitted long after its attempt was over")

    def _was_forgotten(self, earlier: Run, run: Run, running: list[Seen]) -> bool:
        """Whether the head itself has lost a job of which no status could tell yet."""
        told = any(each.says for each in running)
        return self._ray.forgot and earlier.place == run.place and not told

    # -- jobs ---------------------------------------------------------------------------------

    def _job(self, event: StoredEvent) -> None:
        obj = event.current.object
        uid, spec = obj["metadata"]["uid"], obj["spec"]
        if uid not in self.jobs:
            limits = (spec.get(each, 0) for each in ("backoffLimit", "disruptionBackoffLimit"))
            self.jobs[uid] = JobHistory(obj["metadata"]["name"], *limits, spec["submissionMode"])
        history = self.jobs[uid]
        now = _seen(obj, self._loop.time())
        before = history.seen[-1] if history.seen else None
        if event.type == "DELETED":
            history.present = False
            return
        if before is not None:
            history.resumes += before.suspend and not now.suspend
            self._moved(uid, history, before, now)
        elif now.state:
            self._blame(f"{history.name} was created with a status")
        history.seen.append(now)
        if now.state in ATTEMPT and now.job_id:
            history.attempts.setdefault(now.job_id, now.cluster)

    def _moved(self, uid: str, history: JobHistory, before: Seen, now: Seen) -> None:
        what = f"{history.name} went from {before.state or 'New'!r} to {now.state or 'New'!r}"
        if now.state == before.state:
            self._stayed(history, before, now)
            return
        if before.state in TERMINAL:
            self._blame(f"{what}: it was over")
        elif now.state not in FOLLOWS.get(before.state, ()):
            self._blame(what)
        self._count(what, history, before, now)
        self._compare(what, before, now)
        if now.state == "Initializing":
            self._begun(what, history, now)
        if before.state in {"Retrying", "Suspending"}:
            left = [name for owner, name in self._clusters.values() if owner == uid]
            if left:
                self._blame(f"{what}, and there still is {left}")

    def _stayed(self, history: JobHistory, before: Seen, now: Seen) -> None:
        if (before.failed, before.succeeded) != (now.failed, now.succeeded):
            self._blame(f"{history.name} counts {now.failed} and {now.succeeded} without a move")
        names = (before.cluster, before.job_id), (now.cluster, now.job_id)
        if now.state in ATTEMPT | TERMINAL and names[0] != names[1]:
            self._blame(f"{history.name} changed names within an attempt: {names}")
        # the transition stores what Ray said last; its own end may follow, once
        follows = before.says not in ENDED and now.says in ENDED
        if now.state in TERMINAL and now.says != before.says and not follows:
            self._blame(f"{history.name} was {before.says!r} at its end, and now is {now.says!r}")

    def _count(self, what: str, history: JobHistory, before: Seen, now: Seen) -> None:
        """Both counters move with the transition that ends an attempt, and never else."""
        fails, succeeds = now.state in {"Retrying", "Failed"}, now.state == "Complete"
        if now.failed != before.failed + fails:
            self._blame(f"{what} and counts {now.failed} failures after {before.failed}")
        if now.succeeded != before.succeeded + succeeds or now.succeeded > 1:
            self._blame(f"{what} and counts {now.succeeded} successes after {before.succeeded}")
        attempts, spared = history.backoff + 1, now.disrupted - before.disrupted
        counted = now.failed - now.disrupted
        if counted > attempts:
            self._blame(f"{what}: {counted} failures of {attempts} attempts")
        if now.state == "Failed" and now.reason not in NOT_RETRIABLE and counted < attempts:
            self._blame(f"{what} for {now.reason}, and {attempts - counted} attempts were left")
        ends = counted >= attempts and not spared
        if now.state == "Retrying" and (now.reason in NOT_RETRIABLE or ends):
            self._blame(f"{what} for {now.reason} after {counted} failures of {attempts}")
        taken = before.cluster in self._disrupted
        if spared not in {0, 1} or (spared and not taken):
            self._blame(f"{what} and spares {spared} attempts; its head was taken away: {taken}")
        is_due = self._calm and fails and now.lost and taken
        if is_due and not spared and before.disrupted < history.spared:
            self._blame(f"{what} and counts an attempt whose head was taken away")

    def _compare(self, what: str, before: Seen, now: Seen) -> None:
        """How an attempt ended, beside what has become of it in Ray."""
        runs = self._ray.runs(before.job_id)
        truths = [self._ray.truth(run) for run in runs]
        told = f"{what} ({now.says} {now.cause}), and the truth is {truths}"
        says_success = now.state == "Complete" or now.says == JobStatus.SUCCEEDED.value
        if says_success and JobStatus.SUCCEEDED not in truths:
            self._blame(told)
        # A job that Ray has never told of may be on a head that is gone with its submitter.
        knowable = now.says or any(self._ray.is_alive(run) for run in runs)
        failed = JobStatus.FAILED in truths or self._ray.forgot
        if now.cause == "AppFailed" and knowable and not failed:
            self._blame(told)
        if now.cause in UNREACHABLE and before.state == "Running":
            there = {uid for uid, (_, name) in self._clusters.items() if name == before.cluster}
            if any(self._is_within_reach(run) and run.place[0] in there for run in runs):
                self._blame(f"{told}, on a head that is there")

    def _is_within_reach(self, run: Run) -> bool:
        """Whether the head lives, and has answered within the time that it may be silent.

        Nobody can know how a job ends on a head whose node is cut off: after the time limit it
        counts as lost, although the job may have succeeded there.
        """
        limit = JOB_SETTINGS.status_check_timeout.total_seconds() - WHOLE_SECONDS
        return self._ray.is_alive(run) and self._ray.silent_for(run) < limit

    def _begun(self, what: str, history: JobHistory, now: Seen) -> None:
        if not now.cluster or not now.job_id:
            self._blame(f"{what} without names: {now.cluster!r}, {now.job_id!r}")
        if now.job_id in history.attempts or now.cluster in history.attempts.values():
            self._blame(f"{what} with names that were used: {now.cluster}, {now.job_id}")

    # -- clusters -----------------------------------------------------------------------------

    def _cluster(self, event: StoredEvent, owner: str) -> None:
        meta, history = event.current.object["metadata"], self.jobs[owner]
        uid, name = meta["uid"], meta["name"]
        was_live = uid in self._clusters
        if event.type == "DELETED" or "deletionTimestamp" in meta:
            self._clusters.pop(uid, None)
            if was_live and not ACTOR.get():
                history.taken.add(name)
            return
        if event.type != "ADDED":
            return
        self._names[uid] = name
        if not ACTOR.get().endswith(LATE):
            self._clusters[uid] = (owner, name)
            self._appeared(owner, history, name)
        history.made.add(name)

    def _appeared(self, owner: str, history: JobHistory, name: str) -> None:
        if name in history.made and name not in history.taken:
            self._blame(f"the name {name} was used twice")
        live = [each for of, each in self._clusters.values() if of == owner]
        if len(live) > 1:
            self._blame(f"{history.name} has clusters {sorted(live)}")
        made = len(history.made | {name})
        if made > history.backoff + 1 + history.spared + history.resumes:
            self._blame(f"{name} is cluster number {made} of {history.name}")
        if not self._strict:
            return
        since = self._intents[owner, name]
        later = [each for each in history.seen if each.revision >= since]
        if not any(each.may_have_cluster and each.cluster == name for each in later):
            self._blame(f"cluster {name} was made, and {history.name} was {later[-1]}")

    def _blame(self, what: str) -> None:
        self.violations.append(f"{self._loop.time():.3f} s, {ACTOR.get() or 'Ray'}: {what}")


def _seen(obj: dict[str, Any], time: float) -> Seen:
    meta, status = obj["metadata"], obj.get("status", {})
    ready = find_condition(status.get("conditions", ()), READY) or {}
    attempt = (status.get("attempts") or [{}])[-1]
    return Seen(
        revision=int(meta["resourceVersion"]),
        time=time,
        suspend=bool(obj["spec"].get("suspend")),
        deleting="deletionTimestamp" in meta,
        state=status.get("jobDeploymentStatus", ""),
        cluster=status.get("rayClusterName", ""),
        job_id=status.get("jobId", ""),
        says=status.get("jobStatus", ""),
        reason=status.get("reason", ""),
        cause=ready.get("reason", ""),
        failed=status.get("failed", 0),
        disrupted=status.get("disrupted", 0),
        lost=attempt.get("reason") == "HeadLost",
        succeeded=status.get("succeeded", 0),
    )


def _owner(obj: dict[str, Any]) -> str:
    references = obj["metadata"].get("ownerReferences", [])
    return next((each["uid"] for each in references if each.get("controller")), "")
