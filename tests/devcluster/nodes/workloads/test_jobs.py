"""Jobs: the pure plan as tables, and the controller against the embedded API server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import rfc3339
from controller.testing.faults import LostResponse, Rule, watch_lag
from devcluster.nodes.jobs import JobPlan, plan_job
from devcluster.nodes.objects import JOBS, ControlledJob
from devcluster.nodes.pods import PODS, KubeletPod
from tests.devcluster.nodes.conftest import World

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def ago(seconds: float) -> str:
    return rfc3339(NOW - timedelta(seconds=seconds))


def job(*, status: Any = None, **spec: Any) -> ControlledJob:
    body: dict[str, Any] = {
        "metadata": {"name": "j", "namespace": "default", "uid": "u-j"},
        "spec": {"parallelism": 1, "completions": 1, **spec},
        "status": {"startTime": ago(100), **(status or {})},
    }
    return msgspec.convert(body, ControlledJob)


def pod(
    phase: str = "Running", *, deleted: bool = False, ended: float = 50.0, restarts: int = 0
) -> KubeletPod:
    state = {"terminated": {"exitCode": 1, "finishedAt": ago(ended)}}
    finished = phase in {"Failed", "Succeeded"}
    body = {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "creationTimestamp": ago(90),
            **({"deletionTimestamp": ago(0)} if deleted else {}),
        },
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "False" if finished else "True"}],
            "containerStatuses": [
                {"name": "m", "restartCount": restarts, "state": state if finished else {}}
            ],
        },
    }
    return msgspec.convert(body, KubeletPod)


def plan(planned: ControlledJob, *pods: KubeletPod) -> JobPlan:
    return plan_job(planned, pods, NOW)


def true_conditions(found: JobPlan) -> dict[str, str | None]:
    return {c.type: c.reason for c in found.status.conditions if c.status == "True"}


@pytest.mark.parametrize(
    ("spec", "pods", "creates"),
    [
        ({}, [], 1),
        ({}, [pod()], 0),
        ({}, [pod(deleted=True)], 1),
        ({"parallelism": 3, "completions": 5}, [], 3),
        ({"parallelism": 3, "completions": 5}, [pod("Succeeded")] * 3, 2),
        ({"parallelism": 3, "completions": 5}, [pod("Succeeded")] * 4 + [pod()], 0),
        ({}, [pod("Failed")], 1),
    ],
)
def test_how_many_pods_are_wanted(spec: Any, pods: Any, creates: int) -> None:
    assert plan(job(**spec), *pods).creates == creates


@pytest.mark.parametrize(
    ("failures", "waits"), [([5.0], 5.0), ([5.0, 30.0], 15.0), ([5.0] * 6, 315.0), ([11.0], None)]
)
def test_failed_pods_are_replaced_after_a_growing_pause(
    failures: list[float], waits: float | None
) -> None:
    found = plan(job(backoffLimit=100), *(pod("Failed", ended=ended) for ended in failures))
    assert found.requeue_after == waits
    assert found.creates == (waits is None)


@pytest.mark.parametrize(
    ("spec", "pods", "verdicts"),
    [
        (
            {},
            [pod("Succeeded")],
            {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"},
        ),
        ({"completions": 2}, [pod("Succeeded")], {}),
        (
            {"backoffLimit": 0},
            [pod("Failed")],
            {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"},
        ),
        ({"backoffLimit": 1}, [pod("Failed")], {}),
        ({}, [pod("Failed")] * 6, {}),
        (
            {},
            [pod("Failed")] * 7,
            {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"},
        ),
        ({"backoffLimit": 1}, [pod(restarts=2)], {"FailureTarget": "BackoffLimitExceeded"}),
        ({"activeDeadlineSeconds": 99}, [pod()], {"FailureTarget": "DeadlineExceeded"}),
        ({"activeDeadlineSeconds": 101}, [pod()], {}),
    ],
)
def test_verdicts(spec: Any, pods: Any, verdicts: Any) -> None:
    assert true_conditions(plan(job(**spec), *pods)) == verdicts


def test_a_job_is_finished_only_when_its_pods_are_gone() -> None:
    deciding = plan(job(activeDeadlineSeconds=1), pod())
    assert len(deciding.deletes) == 1
    assert "Failed" not in true_conditions(deciding)
    decided = msgspec.structs.replace(job(activeDeadlineSeconds=1), status=deciding.status)
    assert "Failed" not in true_conditions(plan(decided, pod(deleted=True)))
    assert true_conditions(plan(decided))["Failed"] == "DeadlineExceeded"


def test_a_verdict_stands_whatever_happens_then() -> None:
    decided = plan(job(completions=1, parallelism=2), pod("Succeeded"), pod())
    assert true_conditions(decided) == {"SuccessCriteriaMet": "CompletionsReached"}
    later = msgspec.structs.replace(job(backoffLimit=0), status=decided.status)
    assert true_conditions(plan(later, pod("Succeeded"), pod("Failed")))["Complete"]


@pytest.mark.parametrize(
    ("ttl", "expired", "wake_in"), [(None, False, None), (60, False, 20.0), (40, True, None)]
)
def test_a_finished_job_expires(ttl: int | None, expired: bool, wake_in: float | None) -> None:
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": ago(40)}
    found = plan(job(ttlSecondsAfterFinished=ttl, status={"conditions": [complete]}))
    assert (found.expired, found.requeue_after) == (expired, wake_in)


async def create_job(
    world: World,
    *,
    annotations: dict[str, str] | None = None,
    restart_policy: str = "Never",
    **spec: Any,
) -> str:
    told = {f"sim.manta.dev/{key}": value for key, value in (annotations or {}).items()}
    body: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {
            **spec,
            "template": {
                "metadata": {"labels": {"team": "t"}, "annotations": told},
                "spec": {
                    "restartPolicy": restart_policy,
                    "containers": [{"name": "main", "image": "busybox"}],
                },
            },
        },
    }
    return (await world.user.create(JOBS, "default", body)).metadata.uid


async def status(world: World) -> Any:
    return (await world.user.get(JOBS, "default", "j")).status


async def finished(world: World) -> str:
    found = await status(world)
    ends = [c for c in found.conditions if c.type in {"Complete", "Failed"} and c.status == "True"]
    return ends[0].type + " " + ends[0].reason if ends else ""


async def pods(world: World) -> list[KubeletPod]:
    return (await world.user.list(PODS, "default")).items


async def test_a_job_runs_its_pods_and_completes(world: World) -> None:
    async with world.nodes():
        uid = await create_job(
            world, annotations={"outcome": "succeed"}, completions=5, parallelism=2
        )
        assert await world.eventually(lambda: finished(world)) == "Complete CompletionsReached"
        found = await status(world)
        made = await pods(world)
    assert (found.active, found.succeeded, found.failed) == (0, 5, 0)
    assert found.completion_time is not None
    assert len(made) == 5
    labels = made[0].metadata.labels or {}
    assert labels["team"] == "t"
    assert labels["job-name"] == labels["batch.kubernetes.io/job-name"] == "j"
    assert labels["controller-uid"] == labels["batch.kubernetes.io/controller-uid"] == uid
    owner = made[0].metadata.controller
    assert owner is not None
    assert (owner.kind, owner.uid) == ("Job", uid)


async def test_a_job_gives_up_at_its_backoff_limit(world: World) -> None:
    async with world.nodes():
        await create_job(world, annotations={"outcome": "crash"}, backoffLimit=2)
        assert await world.eventually(lambda: finished(world), seconds=120.0) == (
            "Failed BackoffLimitExceeded"
        )
        assert len(await pods(world)) == 3
        assert (await status(world)).failed == 3
        assert 30.0 < world.now < 60.0  # two pauses, of 10 and 20 s


async def test_restarts_in_place_count_against_the_backoff_limit(world: World) -> None:
    async with world.nodes():
        told = {"outcome": "crash"}
        await create_job(world, annotations=told, backoffLimit=1, restart_policy="OnFailure")
        assert await world.eventually(lambda: finished(world)) == "Failed BackoffLimitExceeded"
        assert await pods(world) == []


async def test_a_finished_job_goes_after_its_time_with_its_pods(world: World) -> None:
    async with world.nodes():
        await create_job(world, annotations={"outcome": "succeed"}, ttlSecondsAfterFinished=30)
        await world.eventually(lambda: finished(world))
        await asyncio.sleep(28)
        assert not await world.is_gone(JOBS, "j")
        await asyncio.sleep(5)
        assert await world.is_gone(JOBS, "j")
        assert await pods(world) == []
    policies = [
        body["propagationPolicy"]
        for method, path, body in world.recorder.writes
        if method == "DELETE" and path.endswith("/jobs/j")
    ]
    assert policies == ["Foreground"]


async def test_a_stale_job_controller_makes_no_pod_too_many(world: World) -> None:
    """The names of pods are idempotency keys: a create that is repeated meets its own pod."""
    rules = (
        watch_lag("pods", 2.0),
        Rule(LostResponse(), "pods", frozenset({"create"}), times=3),
    )
    async with world.nodes(rules=rules):
        told = {"outcome": "succeed"}
        await create_job(world, annotations=told, completions=6, parallelism=3)
        await world.eventually(lambda: finished(world), seconds=120.0)
    entries = [entry.attributes for entry in world.faulty.journal.writes]
    created = {(a.resource, a.name) for a in entries if a.verb == "create" and not a.subresource}
    assert len([name for resource, name in created if resource == "pods"]) == 6
