"""Bugs of RayServices that only a life shows not to be here."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World, is_ready
from tests.integration.rayservices import (
    Services,
    asked,
    message,
    reason,
    service_manifest,
    with_image,
)
from tests.integration.test_takeover_of_services import left_by_kuberay

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.embedded_only]

IMAGE = "rayproject/ray:2.53.0"


async def test_a_first_cluster_comes_to_serve_whatever_the_specification_says(services: Services):
    services.start_operator()
    await services.create(service_manifest())
    while not await services.clusters():
        await services.world.settle(0.5)
    await services.patch(serveConfigV2="applications: 1")
    name = await services.taken_over("")
    assert await services.selected() == await services.selected("svc-head-svc") == name
    status = await services.reaches(lambda s: s.get("numServeEndpoints"))
    assert reason(status, "Ready") == "ValidationFailed"
    assert await services.clusters() == [name]


@pytest.mark.parametrize(
    "edit",
    [
        {"serveConfigV2": "applications: 1"},
        {"rayClusterConfig": {"authOptions": {"mode": "token"}, "rayVersion": "2.0.0"}},
    ],
    ids=["config", "cluster"],
)
async def test_an_upgrade_that_has_begun_ends_whatever_the_specification_says(
    services: Services, edit: dict[str, Any]
):
    services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=20)
    old = await services.deployed(manifest)
    failures: list[str] = []
    async with asked(services, failures):
        await services.edit(with_image(manifest, IMAGE))
        await services.reaches(lambda s: bool(s.get("pendingServiceStatus")))
        new = await services.pending()
        while new not in await services.clusters():
            await services.world.settle(0.5)
        await services.patch(**edit)
        status = await services.reaches(lambda s: reason(s, "Ready") == "ValidationFailed")
        assert f"until cluster {new} serves" in message(status, "UpgradeInProgress")
        assert await services.taken_over(old) == new
        assert await services.selected() == await services.selected("svc-head-svc") == new
        await services.world.settle(60)
        assert await services.clusters() == [new]
        assert reason(await services.status(), "Ready") == "ValidationFailed"
    assert failures == []


async def test_a_head_without_memory_is_given_the_applications_again(services: Services):
    services.start_operator()
    name = await services.deployed()
    (lost,) = services.heads()
    puts = services.serve_of(name).puts
    await delete(services, lost)

    def is_back() -> bool:
        heads = [pod for pod in services.heads() if pod.metadata.uid != lost.metadata.uid]
        return len(services.heads()) == len(heads) == 1 and is_ready(heads[0])

    await services.world.eventually(is_back, seconds=120)
    await services.world.settle(60)
    assert services.serve_of(name).puts == puts[:1]
    assert await services.active() == name
    assert await services.is_ready()


async def delete(services: Services, pod: Pod) -> None:
    meta = pod.metadata
    await services.world.user.delete(PODS, services.world.namespace, meta.name, uid=meta.uid)


# -- a RayService's edit is not lost while it cannot be recorded from what a cluster was created ---


CHANGES = frozenset({"patch", "update", "replace"})
EDITED = "rayproject/ray:2.99.0"


def refused(resource: str) -> Rule:
    return Rule(ErrorResponse(403, "Forbidden", "not by policy"), resource, CHANGES)


async def test_an_edit_counts_though_the_take_over_could_not_be_recorded_for_a_minute(world: World):
    services, manifest = Services(world), service_manifest()
    await left_by_kuberay(services, manifest)
    (old,) = await services.clusters()
    await services.edit(with_image(manifest, EDITED))
    operator = services.start_operator()
    rule = refused("rayclusters.ray.io")
    operator.transport.rules.append(rule)
    await world.settle(60)
    operator.transport.rules.remove(rule)
    await world.settle(300)
    assert await services.active() != old
