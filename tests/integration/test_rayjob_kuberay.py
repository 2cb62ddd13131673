"""RayJobs with KubeRay's own definitions installed, which keep no conditions and no attempts."""

from __future__ import annotations

import pytest

from controller.command.manifests import load
from controller.kube.resources import CRDS, PODS
from controller.ray.dashboard import JobStatus
from tests.integration.harness import World
from tests.integration.rays import Rays, forever
from tests.integration.test_at_rest import requests
from tests.integration.test_rayjob_bugs import running
from tests.ray.dashboard.simulated import Course
from tests.samples import THEIR_CRDS

pytestmark = pytest.mark.embedded_only


@pytest.fixture
async def rays(world: World) -> Rays:
    path = THEIR_CRDS / "ray.io_rayjobs.yaml"
    if not path.exists():
        pytest.skip(f"SKIPPED, NOT PASSED: KubeRay's definitions are not at {THEIR_CRDS}")
    rays = Rays(world)
    await rays.open()
    present = await world.user.get_raw(CRDS, "", "rayjobs.ray.io")
    [theirs] = load(path)
    await world.user.replace(CRDS, "", "rayjobs.ray.io", present | {"spec": theirs["spec"]})
    return rays


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["HTTPMode", "K8sJobMode"])
async def test_a_job_is_retried_and_counted_as_with_our_own(rays: Rays, mode: str):
    results = iter([JobStatus.FAILED, JobStatus.SUCCEEDED])
    rays.ray.course = lambda _body: Course(result=next(results))
    rays.start_operator()
    await rays.create(submissionMode=mode, backoffLimit=2)
    status = await rays.reaches("Complete", seconds=300)
    assert not {"conditions", "attempts"} & status.keys()
    assert (status["failed"], status["succeeded"]) == (1, 1)
    assert rays.ray.submissions() == 2


async def test_on_which_head_a_job_runs_is_known_after_a_restart(rays: Rays):
    rays.ray.course = lambda _body: forever()
    operator = rays.start_operator()
    await rays.create()
    await running(rays)
    await operator.kill()
    (head,) = rays.heads()
    await rays.world.user.delete(PODS, rays.world.namespace, head.metadata.name)
    await rays.world.settle(5)
    rays.start_operator()
    status = await rays.reaches("Failed", seconds=120)
    assert status["reason"] == "AppFailed"
    assert status["message"].startswith("HeadLost: ")
    assert rays.ray.submissions() == 1


@pytest.mark.slow
async def test_at_rest_nothing_is_written_again_and_again(rays: Rays):
    rays.ray.course = lambda body: forever() if "runs" in body["submission_id"] else Course()
    rays.start_operator()
    await rays.create("ended")
    await rays.create("runs")
    await rays.reaches("Complete", "ended")
    await running(rays, name="runs")
    await rays.world.settle(60)
    before = requests(rays.world)
    await rays.world.settle(1800)
    after = requests(rays.world)
    assert {key for key in after if after[key] != before.get(key) and key[0] != "watch"} == set()
