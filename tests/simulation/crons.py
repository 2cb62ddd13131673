"""Everything about RayCronJobs in one life: their user, who runs their RayJobs, their referee, and
what is wrong at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from controller.kube.errors import KubeError
from controller.ray.api import RAYJOBS
from controller.ray.api.definitions import ray_definition
from controller.ray.api.raycronjob import RAYCRONJOBS
from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import World, example_cluster, install_crds
from tests.simulation import scenario as s
from tests.simulation.cron_referee import CronReferee, end_of, owner_uid, tick_of
from tests.simulation.operators import WitnessedCronJobKind

Object = dict[str, Any]

NAMES = ("cron", "nightly")

PATIENCE = timedelta(minutes=12)
"""After the last fault a tick has its RayJob within this time: refused creates back off."""

PROMPT = timedelta(seconds=20)
"""Time from a tick until its RayJob is there, if nothing goes wrong."""


class CronsOfLife:
    """The RayCronJobs of a world. Nobody operates their RayJobs: they end as fate says.

    Args:
        steady: whether the clock of the operators never jumps.
    """

    def __init__(self, world: World, violations: list[str], *, steady: bool) -> None:
        self._world = world
        self._violations = violations
        self._steady = steady
        self._referee = CronReferee(violations, world.wall, steady=steady)
        self._fates: dict[str, tuple[s.Fate, ...]] = {}  # by uid
        self._begun: set[str] = set()
        self._is_over = False

    async def open(self) -> None:
        await install_crds(self._world, ray_definition("RayCronJob"), ray_definition("RayJob"))

    def kind(self, _wall: Callable[[], datetime]) -> WitnessedCronJobKind:
        return WitnessedCronJobKind(self._referee)

    async def do(self, action: s.CronAction) -> str:
        """Carry out a step; returns what the server said against it, empty if nothing."""
        try:
            await self._do(action)
        except KubeError as error:
            return str(error)
        return ""

    async def _do(self, action: s.CronAction) -> None:
        user, namespace = self._world.user, self._world.namespace
        match action:
            case s.CreateCronJob(number, body):
                made = await user.create(RAYCRONJOBS, namespace, _manifest(NAMES[number], body))
                self._fates[made.metadata.uid] = body.fates
            case s.EditCronJob(number, body):
                present = await user.get_raw(RAYCRONJOBS, namespace, NAMES[number])
                spec = _spec(body) | {"suspend": present["spec"].get("suspend", False)}
                operation = {"op": "replace", "path": "/spec", "value": spec}
                await user.json_patch(RAYCRONJOBS, namespace, NAMES[number], [operation])
            case s.SuspendCronJob(number, suspend):
                await self._suspend(NAMES[number], suspend=suspend)
            case s.DeleteCronJob(number, propagation):
                await user.delete(RAYCRONJOBS, namespace, NAMES[number], propagation=propagation)
            case s.DeleteCronRun(pick):
                if runs := sorted(each["metadata"]["name"] for each in self._objects(RAYJOBS)):
                    await user.delete(RAYJOBS, namespace, runs[pick % len(runs)])

    async def _suspend(self, name: str, *, suspend: bool) -> None:
        patch = {"spec": {"suspend": suspend}}
        await self._world.user.merge_patch(RAYCRONJOBS, self._world.namespace, name, patch)

    def act(self, _action: object) -> None:
        """Nothing of Ray goes wrong here."""

    # -- RayJobs ------------------------------------------------------------------------------

    def saw(self, event: StoredEvent) -> None:
        self._referee(event)
        found = event.current.object
        uid = found["metadata"]["uid"]
        if event.table == str(RAYJOBS) and event.type == "ADDED" and uid not in self._begun:
            self._begun.add(uid)
            owner = owner_uid(found)
            if owner in self._fates:
                fates, number = self._fates[owner], len(self._referee.histories[owner].made)
                fate = fates[min(number, len(fates)) - 1]
                self._world.background(self._end(found["metadata"]["name"], fate))

    async def _end(self, run: str, fate: s.Fate) -> None:
        if not fate.ends:
            return
        await asyncio.sleep(fate.pending + fate.running)
        succeeded = fate.result == "SUCCEEDED"
        status = {
            "jobDeploymentStatus": "Complete" if succeeded else "Failed",
            "jobStatus": fate.result,
            "endTime": self._world.wall().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        with suppress(KubeError):
            await self._world.user.merge_patch(
                RAYJOBS, self._world.namespace, run, {"status": status}, subresource="status"
            )

    # -- the end ------------------------------------------------------------------------------

    def make_peace(self) -> None:
        """From now on all tick; when that is seen, they are suspended."""
        self._world.background(self._tick_to_the_end())

    async def _tick_to_the_end(self) -> None:
        await self._suspend_all(suspend=False)
        until = self._world.wall() + PATIENCE
        while late := await self._late_ones():
            if self._world.wall() > until:
                self._violations.append(f"the latest tick has no RayJob: {late}")
                break
        await self._suspend_all(suspend=True)
        self._is_over = True

    async def _suspend_all(self, *, suspend: bool) -> None:
        for cron in self._objects(RAYCRONJOBS):
            with suppress(KubeError):
                await self._suspend(cron["metadata"]["name"], suspend=suspend)

    async def _late_ones(self) -> list[str]:
        """Names of those whose next tick passes without a RayJob, and that wait for none."""
        now = self._world.wall()
        tick = now.replace(second=0, microsecond=0) + timedelta(minutes=2)
        tick -= timedelta(minutes=tick.minute % 2)
        await asyncio.sleep((tick + PROMPT - now).total_seconds())
        return [
            cron["metadata"]["name"]
            for cron in self._objects(RAYCRONJOBS)
            if not self._is_served(cron, tick)
        ]

    def _is_served(self, cron: Object, tick: datetime) -> bool:
        meta = cron["metadata"]
        history = self._referee.histories[meta["uid"]]
        waits = cron["spec"].get("concurrencyPolicy") == "Forbid"
        active = [run for run in history.runs.values() if not run.end]
        served = any(tick_of(name) == tick for name in history.made)
        return served or (waits and bool(active)) or "deletionTimestamp" in meta

    def shortcomings(self, objects: Callable[[str], list[Object]]) -> list[str]:
        if not self._is_over:
            return ["RayCronJobs are not suspended yet"]
        runs = objects(str(RAYJOBS))
        wrong = [each for cron in objects(str(RAYCRONJOBS)) for each in self._wrong(cron, runs)]
        present = {cron["metadata"]["uid"] for cron in objects(str(RAYCRONJOBS))}
        left = [each["metadata"]["name"] for each in runs if owner_uid(each) not in present]
        return [*wrong, *(f"RayJob {name} is left" for name in left)]

    def _wrong(self, cron: Object, runs: list[Object]) -> list[str]:
        meta, status = cron["metadata"], cron.get("status", {})
        name = meta["name"]
        if "deletionTimestamp" in meta:
            return [f"{name} is not gone"]
        own = [run for run in runs if owner_uid(run) == meta["uid"]]
        active = sorted(run["metadata"]["name"] for run in own if not end_of(run))
        told = sorted(each["name"] for each in status.get("active", ()))
        wrong = [f"{name} tells of {told} and not of {active}"] if told != active else []
        if status.get("observedGeneration") != meta["generation"]:
            wrong.append(f"{name} observed generation {status.get('observedGeneration')}")
        if active and all(fate.ends for fate in self._fates[meta["uid"]]):
            wrong.append(f"{active} still run")
        wish = self._referee.histories[meta["uid"]].wishes[-1]
        for end in ("SUCCEEDED", "FAILED"):
            kept, limit = sum(end_of(run) == end for run in own), wish.limit(end)
            if limit is not None and kept > limit:
                wrong.append(f"{name} keeps {kept} of {end}, and {limit} are to be kept")
        last = max(map(tick_of, self._referee.histories[meta["uid"]].made), default=None)
        stored = status.get("lastScheduleTime")
        if self._steady and last and stored != last.strftime("%Y-%m-%dT%H:%M:%SZ"):
            wrong.append(f"{name} was last scheduled for {last}, and tells of {stored}")
        return wrong

    def leaks(self) -> list[str]:
        """Nothing is kept outside the store."""
        return []

    def _objects(self, resource: Any) -> list[Object]:
        assert self._world.server is not None
        return [item.object for _, item in self._world.server.store.table(str(resource)).now()]


def _manifest(name: str, cron: s.CronJob) -> Object:
    kind = {"apiVersion": RAYCRONJOBS.api_version, "kind": RAYCRONJOBS.kind}
    return {**kind, "metadata": {"name": name}, "spec": _spec(cron)}


def _spec(cron: s.CronJob) -> Object:
    spec = {
        "schedule": f"*/{cron.every} * * * *",
        "concurrencyPolicy": cron.policy,
        "startingDeadlineSeconds": cron.deadline or None,
        "successfulJobsHistoryLimit": cron.successful,
        "failedJobsHistoryLimit": cron.failed,
        "jobTemplate": {"entrypoint": "python job.py", "rayClusterSpec": example_cluster()["spec"]},
    }
    return {key: value for key, value in spec.items() if value is not None}
