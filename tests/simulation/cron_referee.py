"""Watches every transition of RayCronJobs and their RayJobs in the store.

No tick has two RayJobs, none is created that nobody asks for any more, and none is deleted but
those beyond the history limits and those that are replaced. Each write is judged by the generation
that the operator had observed when it first planned it, and by all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from controller.apimachinery.conditions import parse_rfc3339
from controller.ray.api import RAYJOBS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.cronjob.observe import CronJobObservation
from controller.runtime.plan import Create, Delete, Plan
from devcluster.apiserver.store import StoredEvent
from tests.simulation.referee import ACTOR, LATE

Object = dict[str, Any]

LIMITS = {"SUCCEEDED": "successfulJobsHistoryLimit", "FAILED": "failedJobsHistoryLimit"}
"""By how a RayJob has ended."""


NEVER = datetime.min.replace(tzinfo=UTC)


class CronWish(Struct, frozen=True):
    """What a RayCronJob asks for at one generation."""

    generation: int
    deleting: bool
    spec: Object

    @property
    def is_over(self) -> bool:
        return self.deleting or bool(self.spec.get("suspend"))

    @property
    def policy(self) -> str:
        return self.spec.get("concurrencyPolicy", "Allow")

    @property
    def every(self) -> timedelta:
        """Time between two ticks."""
        return timedelta(minutes=int(self.spec["schedule"].split()[0].removeprefix("*/")))

    @property
    def deadline(self) -> timedelta:
        return timedelta(seconds=self.spec.get("startingDeadlineSeconds") or 10**9)

    def limit(self, end: str) -> int | None:
        """How many RayJobs with such an end are kept; None for all."""
        return self.spec.get(LIMITS[end])


class CronRun(Struct, frozen=True):
    """A RayJob of a RayCronJob at one moment; its end is empty while it is active."""

    name: str
    end: str
    deleting: bool
    of_a_user: bool


@dataclass
class CronHistory:
    """A RayCronJob through its generations.

    Attributes:
        made: names of all RayJobs that operators ever created for it.
        runs: the RayJobs that there are, by uid.
        taken: how many RayJobs somebody else has deleted.
        recorded: the latest tick that the status has told of.
        forgotten: names of RayJobs that somebody else deleted before their tick was recorded:
            nothing is left that tells of them.
    """

    name: str
    born: datetime
    wishes: list[CronWish] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    runs: dict[str, CronRun] = field(default_factory=dict)
    taken: int = 0
    recorded: datetime = NEVER
    forgotten: set[str] = field(default_factory=set)

    def since(self, generation: int) -> list[CronWish]:
        """The wishes of that generation and of all later ones."""
        return [each for each in self.wishes if each.generation >= generation]


class Intent(Struct, frozen=True):
    """What an operator knew when it first planned a write, and when that was."""

    generation: int
    at: datetime


def tick_of(name: str) -> datetime:
    """The minute in the name of a RayJob."""
    return datetime.fromtimestamp(60 * int(name.rpartition("-")[2]), UTC)


class CronReferee:
    """Called after every transition of a store.

    Args:
        steady: whether the clock of the operators never jumps.

    Attributes:
        histories: of all RayCronJobs that ever were, by uid.
    """

    def __init__(
        self, violations: list[str], wall: Callable[[], datetime], *, steady: bool
    ) -> None:
        self._violations = violations
        self._wall = wall
        self._steady = steady
        self._intents: dict[str, Intent] = {}  # of creates by owner and name, of deletes by uid
        self.histories: dict[str, CronHistory] = {}

    def planned(self, seen: CronJobObservation, plan: Plan, now: datetime) -> None:
        """An operator has decided; what it has decided before counts from then."""
        meta = seen.cron.metadata
        for stage in plan.stages:
            for write in stage:
                if isinstance(write, Create):
                    key = f"{meta.uid}/{write.target.name}"
                elif isinstance(write, Delete):
                    key = write.uid
                else:
                    continue
                self._intents.setdefault(key, Intent(meta.generation, now))

    def __call__(self, event: StoredEvent) -> None:
        if event.table == str(RAYCRONJOBS):
            self._cron(event.current.object)
        elif event.table == str(RAYJOBS):
            history = self.histories.get(owner_uid(event.current.object))
            if history is not None:
                self._run(event, history)

    def _cron(self, cron: Object) -> None:
        meta = cron["metadata"]
        born = parse_rfc3339(meta["creationTimestamp"])
        history = self.histories.setdefault(meta["uid"], CronHistory(meta["name"], born))
        wish = CronWish(meta["generation"], "deletionTimestamp" in meta, cron["spec"])
        if wish not in history.wishes[-1:]:
            history.wishes.append(wish)
        if last := cron.get("status", {}).get("lastScheduleTime"):
            history.recorded = max(history.recorded, parse_rfc3339(last))

    def _run(self, event: StoredEvent, history: CronHistory) -> None:
        found = event.current.object
        uid, now = found["metadata"]["uid"], _seen(found, of_a_user=not ACTOR.get())
        before = history.runs.get(uid)
        if before is None:
            history.runs[uid] = now
            if not now.of_a_user:
                self._made(found, history)
            return
        gone = event.type == "DELETED"
        if (gone or now.deleting) and not before.deleting:
            self._goes(uid, before, history)
        history.runs[uid] = CronRun(now.name, now.end, now.deleting, before.of_a_user)
        if gone:
            del history.runs[uid]

    def _made(self, run: Object, history: CronHistory) -> None:
        name, uid = run["metadata"]["name"], run["metadata"]["uid"]
        late, again = ACTOR.get().endswith(LATE), name in history.made
        history.made.add(name)
        if late:  # whoever sent it may have given up on it
            return
        intent = self._intents[f"{owner_uid(run)}/{name}"]
        tick, wishes = tick_of(name), history.since(intent.generation)
        can_know = name not in history.forgotten and (self._steady or tick <= self._wall())
        if again and can_know:
            self._blame(f"the tick of {name} was served twice")
        if all(each.is_over for each in wishes):
            self._blame(f"{name} was created, and {history.name} was suspended or deleted")
        if tick < history.born:
            self._blame(f"{name} was created for a tick before {history.name}")
        others = [other for key, other in history.runs.items() if key != uid and not other.end]
        for sentence in _rivals(wishes, [each for each in others if not each.of_a_user]):
            self._blame(f"{name} was created beside {sentence}")
        if self._steady and not any(_is_due(each, tick, intent.at) for each in wishes):
            self._blame(f"{name} was created at {intent.at}, and {tick} was not due")

    def _goes(self, uid: str, run: CronRun, history: CronHistory) -> None:
        if not ACTOR.get():
            history.taken += 1
            if tick_of(run.name) > history.recorded:
                history.forgotten.add(run.name)
            return
        intent = self._intents.get(uid)
        if intent is None:
            self._blame(f"{run.name} was deleted, and it was another that was to go")
            return
        wishes = history.since(intent.generation)
        if any(each.policy == "Replace" for each in wishes):
            return
        if not run.end:
            self._blame(f"{run.name} was deleted while it ran")
            return
        alike = [each for each in history.runs.values() if each.end == run.end]
        left = sum(not each.deleting for each in alike) - 1 + history.taken
        limits = [each.limit(run.end) for each in wishes]
        if not any(limit is not None and left >= limit for limit in limits):
            self._blame(f"{run.name} was deleted, and only {left} of {limits} are left")

    def _blame(self, what: str) -> None:
        self._violations.append(f"{self._wall():%H:%M:%S}, {ACTOR.get()}: {what}")


def _rivals(wishes: list[CronWish], active: list[CronRun]) -> Iterator[str]:
    """Active RayJobs that should not be there when another one is created."""
    for run in active:
        if all(each.policy == "Forbid" for each in wishes):
            yield f"{run.name}, which is forbidden"
        elif all(each.policy == "Replace" for each in wishes) and not run.deleting:
            yield f"{run.name}, which was to be replaced"


def _is_due(wish: CronWish, tick: datetime, at: datetime) -> bool:
    """Whether it is the latest tick at that time, and not too old."""
    is_tick = tick.timestamp() % wish.every.total_seconds() == 0
    return is_tick and timedelta(0) <= at - tick < min(wish.every, wish.deadline)


def owner_uid(run: Object) -> str:
    """Uid of the RayCronJob that a RayJob belongs to; empty if it is none's."""
    owners = run["metadata"].get("ownerReferences", ())
    return next((o["uid"] for o in owners if o["kind"] == RAYCRONJOBS.kind), "")


def end_of(run: Object) -> str:
    """How a RayJob has ended; empty while it is active."""
    status = run.get("status", {})
    return status.get("jobStatus", "") if status.get("jobDeploymentStatus") else ""


def _seen(run: Object, *, of_a_user: bool) -> CronRun:
    meta = run["metadata"]
    return CronRun(meta["name"], end_of(run), "deletionTimestamp" in meta, of_a_user)
