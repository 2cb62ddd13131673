"""Our definition of RayJob on an API server: what it fills in, keeps, refuses and shows."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.errors import Invalid, NotFound, PathNotFound
from controller.ray.api.definitions.crds import rayjob_definition
from controller.ray.api.rayjob import RAYJOBS
from tests.integration.harness import World, install_crds
from tests.ray.job.rayjobs import changed, job_manifest, sample_jobs

RULES = "spec.deletionStrategy.deletionRules"
SELF = {"policy": "DeleteSelf"}
ON_FAILURE = {"jobStatus": "FAILED"}


async def prepare(world: World) -> None:
    await install_crds(world, rayjob_definition())
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


async def test_every_sample_is_kept_whole(world: World):
    await prepare(world)
    for document in sample_jobs():
        stored = await store(world, document)
        assert lost(document["spec"], stored["spec"]) == []
        await world.user.delete(RAYJOBS, world.namespace, stored["metadata"]["name"])


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
