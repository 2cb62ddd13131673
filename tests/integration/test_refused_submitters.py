"""RayJobs whose submitter's pods the API server refuses: only the Job's events tell of it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from tests.integration.rays import Rays
from tests.integration.test_first_causes import QUOTAS

pytestmark = [pytest.mark.timeout(300), pytest.mark.embedded_only]


async def with_room_for(rays: Rays, pods: int) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team"},
        "spec": {"hard": {"pods": str(pods)}},
    }
    await rays.world.user.create(QUOTAS, rays.world.namespace, quota)


async def ready(rays: Rays) -> dict[str, Any]:
    return dict(find_condition((await rays.status()).get("conditions", ()), "Ready") or {})


async def test_a_quota_without_room_for_the_submitter_is_the_first_cause_until_it_has_some(
    rays: Rays,
):
    await with_room_for(rays, 2)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")

    async def told() -> bool:
        return (await ready(rays)).get("reason") == "QuotaExceeded"

    await rays.world.eventually(told, seconds=60, pause=0.5)
    message = (await ready(rays))["message"]
    assert message.startswith("submitter: Job job cannot create its pod: the pod is forbidden: ")
    assert "exceeded quota: team" in message
    assert "spec.submitterPodTemplate" in message
    events = [reason for reason, _ in await rays.events()]
    assert events.count("FailedToCreateRayJobSubmitter") == 1
    more = {"spec": {"hard": {"pods": "3"}}}
    await rays.world.user.merge_patch(QUOTAS, rays.world.namespace, "team", more)
    await rays.reaches("Complete", seconds=200)


async def test_the_deadline_before_running_names_what_refused_the_submitter(rays: Rays):
    await with_room_for(rays, 2)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", preRunningDeadlineSeconds=40)
    status = await rays.reaches("Failed", seconds=60)
    assert status["reason"] == "PreRunningDeadlineExceeded"
    assert "exceeded quota: team" in status["message"]
    await rays.world.settle(30)
    assert await rays.jobs_of_kubernetes() == [], "it could still submit the job"
