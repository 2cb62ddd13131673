"""A RayCronJob, its RayJobs and a cache around them, all made of plain values."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controller.apimachinery.patches import apply_merge_patch
from controller.ray.api.raycronjob import RAYCRONJOBS, RayCronJob
from controller.ray.api.rayjob import RAYJOBS, RayJob
from controller.ray.cronjob import RayCronJobKind
from controller.runtime.plan import Create, Delete, Plan, Write
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import manifest

UID = "uid-of-cron"
NOON = datetime(2026, 8, 20, 12, 0, tzinfo=UTC)


def at(hours: int, minutes: int = 0, seconds: float = 0.0) -> datetime:
    """This time of 20 August 2026."""
    return NOON.replace(hour=hours, minute=minutes) + timedelta(seconds=seconds)


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def job_spec() -> dict[str, Any]:
    return {"entrypoint": "python job.py", "rayClusterSpec": manifest()["spec"]}


def cron_job(
    status: dict[str, Any] | None = None,
    name: str = "cron",
    *,
    terminating: bool = False,
    **spec: Any,
) -> RayCronJob:
    """A RayCronJob made at 09:30 whose schedule ticks at every full hour."""
    body: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": UID,
            "generation": 3,
            "resourceVersion": "7",
            "creationTimestamp": stamp(at(9, 30)),
            "deletionTimestamp": stamp(NOON) if terminating else None,
        },
        "spec": {"schedule": "0 * * * *", "jobTemplate": job_spec()} | spec,
        "status": status or {},
    }
    return msgspec.convert(body, RayCronJob)


def with_status(cron: RayCronJob, plan: Plan) -> RayCronJob:
    """The object after the plan's status was written."""
    assert plan.status is not None
    status = apply_merge_patch(cron.status, plan.status.wanted)
    return msgspec.structs.replace(cron, status=status)


def name_of(tick: datetime) -> str:
    return f"cron-{int(tick.timestamp()) // 60}"


def job(
    tick: datetime | None = None,
    deployment: str = "Running",
    job_status: str = "",
    *,
    name: str = "",
    owner: str = UID,
    ended: datetime | None = None,
    terminating: bool = False,
    annotations: dict[str, str] | None = None,
) -> RayJob:
    """A RayJob as the controller makes it for this tick."""
    name = name or name_of(tick or NOON)
    if annotations is None and tick is not None:
        annotations = {"ray.io/cronjob-scheduled-timestamp": stamp(tick)}
    reference = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "name": "cron",
        "uid": owner,
        "controller": True,
    }
    status = {"jobDeploymentStatus": deployment, "jobStatus": job_status}
    body: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "creationTimestamp": stamp(at(9, 45)),
            "deletionTimestamp": stamp(NOON) if terminating else None,
            "annotations": annotations,
            "ownerReferences": [reference] if owner else [],
        },
        "status": status | ({"endTime": stamp(ended)} if ended else {}),
    }
    return msgspec.convert(body, RayJob)


def succeeded(tick: datetime, **more: Any) -> RayJob:
    ended = tick + timedelta(minutes=10)
    return job(tick, "Complete", "SUCCEEDED", **({"ended": ended} | more))


def reads(cron: RayCronJob, *jobs: RayJob, rayjobs_served: bool = True, **more: Any) -> FakeReads:
    kept = FakeReads(RayCronJobKind(), **more).add(RAYCRONJOBS, cron)
    return kept.add(RAYJOBS, *jobs) if rayjobs_served else kept


def plan(
    cron: RayCronJob, *jobs: RayJob, now: datetime, kind: RayCronJobKind | None = None, **more: Any
) -> Plan:
    """What the kind would do at this time."""
    kind = kind or RayCronJobKind()
    seen = kind.observe(cron.metadata.key, reads(cron, *jobs, **more))
    assert seen is not None
    before = copy.deepcopy((cron.spec, cron.status))
    made = kind.plan(seen, now)
    assert (cron.spec, cron.status) == before
    return made


def writes(made: Plan) -> list[Write]:
    return [write for stage in made.stages for write in stage]


def created(made: Plan) -> list[str]:
    return [write.target.name for write in writes(made) if isinstance(write, Create)]


def deleted(made: Plan) -> list[str]:
    return [write.target.name for write in writes(made) if isinstance(write, Delete)]


def ready(made: Plan) -> tuple[str, str, str]:
    """Status, reason and message of the condition `Ready`."""
    assert made.status is not None
    found: list[Mapping[str, Any]] = made.status.wanted["conditions"]
    (condition,) = [each for each in found if each["type"] == "Ready"]
    return condition["status"], condition["reason"], condition["message"]


def told(made: Plan) -> list[str]:
    """Events of the plan and of its status, as `Warning Reason`."""
    of_status = made.status.events if made.status else ()
    return [f"{event.type} {event.reason}" for event in (*made.events, *of_status)]
