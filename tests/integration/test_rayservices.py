"""RayServices from their manifests to their upgrades, on simulated Serves."""

from __future__ import annotations

import copy
import json

import pytest

from controller.ray.api.rayservice import RAYSERVICES
from tests.integration.harness import REAL_KUBECONFIG
from tests.integration.rayservices import (
    Services,
    asked,
    condition,
    reason,
    serve_config,
    service_manifest,
    with_image,
)

pytestmark = pytest.mark.timeout(240)

SUSPENDED = "SuspendComplete"
REST = 60 if REAL_KUBECONFIG else 600
"""Seconds in which a service at rest would be written, if it ever were."""


async def test_a_service_becomes_ready(services: Services):
    services.start_operator()
    await services.create()
    status = await services.reaches(lambda s: s.get("serviceStatus") == "Running")
    active = status["activeServiceStatus"]
    assert await services.clusters() == [active["rayClusterName"]]
    assert active["applicationStatuses"]["hello"]["status"] == "RUNNING"
    assert await services.selected() == active["rayClusterName"]
    assert await services.selected("svc-head-svc") == active["rayClusterName"]
    assert len(services.serve_of(active["rayClusterName"]).puts) == 1


async def test_image_and_config_changed_together_reach_the_new_cluster_only(services: Services):
    services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=30)
    old = await services.deployed(manifest)
    failures: list[str] = []
    async with asked(services, failures):
        edited = with_image(manifest, "rayproject/ray:2.53.0")
        edited["spec"]["serveConfigV2"] = serve_config("hello")
        await services.edit(edited)
        new = await services.taken_over(old)
        old_puts = services.serve_of(old).puts
        await services.world.eventually(lambda: _only(services, new), seconds=120)
        await services.world.settle(10)
    assert not failures
    assert [greeting(put) for put in old_puts] == ["hi"]
    assert [greeting(put) for put in services.serve_of(new).puts] == ["hello"]


async def test_a_service_at_rest_writes_and_puts_nothing(services: Services):
    services.start_operator()
    name = await services.deployed()
    await services.world.settle(20)
    before = (await services.service()).metadata.resource_version
    puts = len(services.serve_of(name).puts)
    await services.world.settle(REST)
    assert (await services.service()).metadata.resource_version == before
    assert len(services.serve_of(name).puts) == puts


async def test_a_deleted_service_leaves_nothing(services: Services):
    services.start_operator()
    created = await services.create()
    await services.serving()
    await services.world.user.delete(
        RAYSERVICES, services.world.namespace, "svc", uid=created.metadata.uid
    )
    await services.world.eventually(lambda: not services.world.journal.present)
    assert await services.clusters() == []


async def test_a_suspended_service_leaves_nothing_and_comes_back(services: Services):
    services.start_operator()
    await services.deployed()
    await services.patch(suspend=True)
    status = await services.reaches(lambda s: condition(s, "Suspended") == "True")
    for kind in ("Ready", "UpgradeInProgress", "RollbackInProgress"):  # as KubeRay has it
        assert (condition(status, kind), reason(status, kind)) == ("False", SUSPENDED)
    assert await services.clusters() == []
    assert await services.selected() == ""
    await services.world.eventually(lambda: not services.world.journal.present)
    await services.patch(suspend=False)
    status = await services.reaches(lambda s: s.get("serviceStatus") == "Running")
    assert condition(status, "Suspended") == "False"


async def test_a_service_that_does_not_serve_in_time_is_given_up_until_it_is_edited(
    services: Services,
):
    services.start_operator()
    manifest = service_manifest()
    manifest["metadata"]["annotations"] = {"ray.io/initializing-timeout": "60"}
    broken = copy.deepcopy(manifest)
    head = broken["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
    head["metadata"] = {"annotations": {"sim.manta.dev/outcome": "crash"}}
    await services.create(broken)
    status = await services.reaches(lambda s: reason(s, "Ready") == "InitializingTimeout")
    assert not status.get("pendingServiceStatus")
    await services.world.eventually(lambda: _only(services), seconds=120)
    await services.edit(manifest)
    await services.serving()


async def _only(services: Services, *names: str) -> bool:
    return await services.clusters() == list(names)


def greeting(put: dict[str, object]) -> str:
    return json.loads(json.dumps(put))["applications"][0]["deployments"][0]["user_config"][
        "greeting"
    ]
