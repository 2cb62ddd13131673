"""RayServices in a queue whose quota holds one cluster: what Kueue writes, in virtual time."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.harness import World, live
from tests.integration.rayservices import Services, condition, message, service_manifest, with_image

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.embedded_only]

IMAGE = "rayproject/ray:2.53.0"
FLAVOR = {"manta.test/flavor": "reserved"}
PODS = 2  # of one cluster, for which there is quota


@pytest_asyncio.fixture
async def services(world: World) -> Services:
    services = Services(world)
    services.start_operator()
    return services


def admitted(manifest: dict[str, Any], flavor: dict[str, str] | None = None) -> dict[str, Any]:
    """The manifest as Kueue leaves it when it has quota: resumed, on nodes of the flavor."""
    found = copy.deepcopy(manifest)
    config = found["spec"]["rayClusterConfig"]
    config["suspend"] = False
    for group in (config["headGroupSpec"], *config["workerGroupSpecs"]):
        group["template"]["spec"]["nodeSelector"] = flavor or FLAVOR
    return found


def stopped(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest as Kueue leaves it without quota: suspended, with its own node selectors."""
    found = copy.deepcopy(manifest)
    found["spec"]["rayClusterConfig"]["suspend"] = True
    return found


async def stop(services: Services, manifest: dict[str, Any]) -> None:
    """Kueue takes the quota; no pod of any cluster is left."""
    await services.edit(stopped(manifest))
    await services.world.eventually(lambda: not services.world.journal.present, seconds=45)
    await services.world.settle(20)
    assert not services.world.journal.present


async def most_pods(services: Services) -> AsyncIterator[int]:
    """The most live pods at one time, as often as it is asked for."""
    most = 0
    while True:
        most = max(most, sum(map(live, services.world.journal.present.values())))
        yield most
        await asyncio.sleep(0.1)


async def serves_within_its_quota(services: Services) -> str:
    """Wait until it serves with the wanted specification; the name of its only cluster."""
    async for most in most_pods(services):
        assert most <= PODS, "more than the quota"
        status = await services.status()
        assert "does not ask for" not in str(status["conditions"]), "we have suspended it"
        if condition(status, "Ready") == "True" and not await services.pending():
            break
    name = await services.active()
    await services.world.becomes(services.clusters, [name], seconds=180)
    assert len(services.world.journal.present) == PODS
    return name


async def test_an_edit_is_admitted_anew_and_starts_the_new_cluster_alone(services: Services):
    manifest = service_manifest()
    old = await services.deployed(admitted(manifest))
    edited = with_image(manifest, IMAGE)
    await services.edit(with_image(admitted(manifest), IMAGE))
    await services.world.settle(1)  # until Kueue notices
    await stop(services, edited)
    await services.edit(admitted(edited))
    assert await serves_within_its_quota(services) != old


async def test_a_service_that_is_stopped_in_its_upgrade_goes_on_with_the_new_cluster(
    services: Services,
):
    manifest = service_manifest()
    old = await services.deployed(admitted(manifest))
    upgraded = copy.deepcopy(manifest)
    upgraded["spec"]["rayClusterConfig"]["headGroupSpec"]["rayStartParams"] = {"num-cpus": "0"}
    await services.edit(admitted(upgraded))  # of which Kueue does not count anything
    await services.world.eventually(lambda: len(services.world.journal.present) == 2 * PODS)
    await stop(services, upgraded)
    await services.edit(admitted(upgraded))
    assert await serves_within_its_quota(services) != old


async def test_an_edit_that_is_taken_back_resumes_the_cluster_that_there_was(services: Services):
    manifest = service_manifest()
    old = await services.deployed(admitted(manifest))
    await services.edit(with_image(admitted(manifest), IMAGE))
    await services.world.settle(1)
    await stop(services, with_image(manifest, IMAGE))
    await services.edit(admitted(manifest))
    assert await serves_within_its_quota(services) == old


async def test_nodes_of_another_flavor_get_a_new_cluster_alone(services: Services):
    manifest = service_manifest()
    old = await services.deployed(admitted(manifest))
    await stop(services, manifest)
    await services.edit(admitted(manifest, {"manta.test/flavor": "spot"}))
    assert await serves_within_its_quota(services) != old


async def test_without_upgrades_the_former_cluster_is_resumed(services: Services):
    manifest = service_manifest(upgradeStrategy={"type": "None"})
    old = await services.deployed(admitted(manifest))
    edited = with_image(manifest, IMAGE)
    await stop(services, edited)
    await services.edit(admitted(edited))
    assert await serves_within_its_quota(services) == old
    assert "keeps its former" in message(await services.status(), "UpgradeInProgress")
