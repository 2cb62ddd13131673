"""Our definition of RayJob on an API server: what it fills in, keeps, refuses and shows."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.manifests import load
from controller.kube.errors import Invalid, NotFound, PathNotFound
from controller.kube.resources import CRDS, PODS
from controller.ray.api.definitions import ray_definition
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.dashboard.responses import JobStatus
from tests.integration.harness import World, install_crds
from tests.integration.rays import Rays, forever
from tests.integration.test_at_rest import requests
from tests.integration.test_rayjob_bugs import running
from tests.ray.dashboard.simulated import Course
from tests.ray.job.rayjobs import changed, job_manifest
from tests.samples import THEIR_CRDS

RULES = "spec.deletionStrategy.deletionRules"
SELF = {"policy": "DeleteSelf"}
ON_FAILURE = {"jobStatus": "FAILED"}


async def prepare(world: World) -> None:
    await install_crds(world, ray_definition("RayJob"))
    await world.eventually(lambda: served(world))


async def served(world: World) -> bool:
    try:
        await world.user.list(RAYJOBS, world.namespace, limit=1)
    except (NotFound, PathNotFound):
        return False
    return True


async def store(world: World, raw: dict[str, Any]) -> dict[str, Any]:
    """The object as it is read back after it was created."""
    meta = {key: value for key, value in raw["metadata"].items() if key not in {"namespace", "uid"}}
    made = await world.user.create(RAYJOBS, world.namespace, raw | {"metadata": meta})
    return await world.user.get_raw(RAYJOBS, world.namespace, made.metadata.name)


def lost(given: Any, kept: Any, path: str = "") -> list[str]:
    """Paths of what was given and is not kept."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [
            each
            for key, value in given.items()
            for each in lost(value, kept.get(key), f"{path}.{key}")
        ]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        pairs = enumerate(zip(given, kept, strict=True))
        return [each for n, (g, k) in pairs for each in lost(g, k, f"{path}[{n}]")]
    return [] if given == kept else [path]


async def test_numbers_and_the_mode_have_kuberays_defaults(world: World):
    await prepare(world)
    stored = await store(
        world, changed(job_manifest(), {f"{RULES}": [SELF | {"condition": ON_FAILURE}]})
    )
    spec = stored["spec"]
    assert spec["submissionMode"] == "K8sJobMode"
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (0, 0)
    assert spec["deletionStrategy"]["deletionRules"][0]["condition"]["ttlSeconds"] == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec.deletionStrategy": {}}, "requires either BOTH onSuccess and onFailure"),
        ({"spec.deletionStrategy": {"onSuccess": SELF}}, "requires either BOTH"),
        ({RULES: []}, "deletionRules"),
        ({RULES: [SELF]}, "condition"),
        ({RULES: [SELF | {"condition": {}}]}, "requires either the JobStatus or"),
        (
            {RULES: [SELF | {"condition": ON_FAILURE | {"jobDeploymentStatus": "Failed"}}]},
            "cannot be used together within the same deletion condition",
        ),
        (
            {
                "spec.deletionStrategy.onSuccess": SELF,
                "spec.deletionStrategy.onFailure": SELF,
                RULES: [SELF | {"condition": ON_FAILURE}],
            },
            "cannot be used together within the same deletionStrategy",
        ),
        ({RULES: [SELF | {"condition": {"jobStatus": "STOPPED"}}]}, "STOPPED"),
        ({RULES: [SELF | {"condition": ON_FAILURE | {"ttlSeconds": -1}}]}, "ttlSeconds"),
        ({"spec.preRunningDeadlineSeconds": 0}, "preRunningDeadlineSeconds"),
        ({"spec.managedBy": "me"}, "the managedBy field value must be either"),
        ({"spec.rayClusterSpec.headGroupSpec": None}, "headGroupSpec"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_rules_refuse_what_kuberays_refuse(
    world: World, changes: dict[str, Any], words: str
):
    await prepare(world)
    with pytest.raises(Invalid, match=words):
        await store(world, changed(job_manifest(), changes))


async def test_what_we_add_to_the_status_is_kept(world: World):
    await prepare(world)
    await store(world, job_manifest())
    attempt = {
        "number": 1,
        "rayClusterName": "example-bcdfg",
        "jobId": "example-hjklm",
        "startTime": "2026-08-20T10:00:00Z",
        "endTime": "2026-08-20T10:01:00Z",
        "result": "Failed",
        "reason": "AppFailed",
        "message": "m",
        "log": "l",
    }
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Running",
        "message": "m",
        "lastTransitionTime": "2026-08-20T10:00:00Z",
    }
    status = {"attempts": [attempt], "conditions": [condition], "observedGeneration": 1}
    await world.user.merge_patch(
        RAYJOBS, world.namespace, "example", {"status": status}, subresource="status"
    )
    stored = await world.user.get_raw(RAYJOBS, world.namespace, "example")
    assert lost(status, stored["status"]) == []


# -- rayJobs with KubeRay's own definitions installed, which keep no conditions and no attempts ----


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


@pytest.mark.embedded_only
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


@pytest.mark.embedded_only
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


@pytest.mark.embedded_only
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
