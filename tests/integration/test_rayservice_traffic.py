"""Requests during the life of a RayService: endpoints, drained connections, configs of any size."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import yaml

from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import cluster_of
from tests.integration.rayservices import Services, reason, service_manifest, with_image

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

DELAY = 40


async def ready_endpoints(services: Services) -> list[str]:
    """Names of the ready pods behind the stable service, as kube-proxy knows them."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{services.world.namespace}/endpointslices"
    found = json.loads(await services.world.user.read_page(path, {}))
    return [
        endpoint["targetRef"]["name"]
        for each in found["items"]
        if each["metadata"]["labels"]["kubernetes.io/service-name"] == "svc-serve-svc"
        for endpoint in each["endpoints"] or ()
        if endpoint["conditions"]["ready"]
    ]


class Switch:
    """What a client sees while a service is led to another cluster."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.moved: float | None = None
        self.gone: float | None = None
        self.without_endpoints: list[float] = []

    async def watch(self, old: str) -> None:
        """Look four times a second until the head of `old` is being deleted."""
        world = self.services.world
        while self.gone is None:
            await asyncio.sleep(0.25)
            if not await ready_endpoints(self.services):
                self.without_endpoints.append(world.loop.time())
            if self.moved is None and await self.services.selected() != old:
                self.moved = world.loop.time()
            heads = [each for each in self.services.heads() if cluster_of(each) == old]
            if not heads or heads[0].metadata.terminating:
                self.gone = world.loop.time()


async def test_there_is_always_an_endpoint_and_the_old_head_stays_for_the_delay(services: Services):
    """Requests that were under way when the service moved have the delay to end."""
    operator = services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=DELAY)
    await services.deployed(manifest)
    old, uids = await services.active(), await uids_of_services(services)
    await services.world.eventually(lambda: ready_endpoints(services))
    switch = Switch(services)
    watching = asyncio.create_task(switch.watch(old))
    await services.edit(with_image(manifest, "rayproject/ray:2.53.0"))
    await services.taken_over(old)
    await services.world.settle(DELAY / 2)
    await operator.kill()
    await services.world.settle(5)
    services.start_operator()
    await asyncio.wait_for(watching, 120)
    assert switch.moved is not None
    assert switch.gone is not None
    assert DELAY <= switch.gone - switch.moved < DELAY + 15
    assert not switch.without_endpoints
    assert await uids_of_services(services) == uids


async def uids_of_services(services: Services) -> list[str]:
    world = services.world
    return [
        (await world.user.get(SERVICES, world.namespace, f"svc-{name}-svc")).metadata.uid
        for name in ("head", "serve")
    ]


async def test_bounds_of_replicas_change_in_the_running_cluster(services: Services):
    services.start_operator()
    manifest = service_manifest()
    name = await services.deployed(manifest)
    manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["maxReplicas"] = 7
    await services.edit(manifest)

    async def follows() -> bool:
        cluster = await services.world.user.get(RAYCLUSTERS, services.world.namespace, name)
        return cluster.spec["workerGroupSpecs"][0]["maxReplicas"] == 7

    await services.world.eventually(follows)
    assert await services.clusters() == [name]


def config_with(text: str) -> str:
    """A Serve config in which the user's data is this text."""
    deployment = {"name": "Hello", "num_replicas": 1, "user_config": {"text": text}}
    application: dict[str, Any] = {
        "name": "hello",
        "import_path": "hello:app",
        "deployments": [deployment],
    }
    return yaml.safe_dump({"applications": [application]})


async def test_a_config_of_300_kib_is_served_if_it_compresses_well(services: Services):
    services.start_operator()
    text = "all work and no play makes jack a dull boy " * 7300
    await services.deployed(service_manifest(serveConfigV2=config_with(text)))
    (put,) = services.serve_of(await services.active()).puts
    assert put["applications"][0]["deployments"][0]["user_config"]["text"] == text


async def test_applications_that_a_user_shut_down_are_deployed_again(services: Services):
    services.start_operator()
    await services.deployed()
    serve = services.serve_of(await services.active())
    for count in (2, 3):
        serve.applications.clear()
        await services.world.eventually(lambda count=count: len(serve.puts) == count)
        await services.reaches(lambda s: s.get("numServeEndpoints") == 2)
    await services.world.settle(30)
    assert len(serve.puts) == 3


async def notes(services: Services, *reasons: str) -> list[str]:
    """Notes of the events with these reasons about the service."""
    path = f"/apis/events.k8s.io/v1/namespaces/{services.world.namespace}/events"
    found = json.loads(await services.world.user.read_page(path, {}))["items"]
    about = [each for each in found if each["regarding"]["kind"] == "RayService"]
    assert all("series" not in each for each in about if each["reason"] in reasons)
    return sorted(each["note"] for each in about if each["reason"] in reasons)


async def test_events_tell_an_upgrade_from_its_preparation_to_the_deletion_each_once(
    services: Services,
):
    services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=5)
    old = await services.deployed(manifest)
    await services.edit(with_image(manifest, "rayproject/ray:2.53.0"))
    new = await services.taken_over(old)
    await services.world.settle(60)
    assert await notes(services, "PreparedRayCluster") == [
        f"Cluster {new} is to replace cluster {old}",
        f"Cluster {old} is to serve",
    ]
    assert await notes(services, "PromotedRayCluster") == sorted(
        f"Cluster {name} serves now" for name in (old, new)
    )
    applied = await notes(services, "UpdatedServeApplications")
    assert sorted(each.rpartition(" ")[2] for each in applied) == sorted((old, new))
    assert await notes(services, "DeletedRayCluster") == [f"Deleted RayCluster {old}"]
    await services.patch(serveConfigV2="applications: 7")
    await services.reaches(lambda s: reason(s, "Ready") == "ValidationFailed")
    await services.world.settle(30)
    (refused,) = await notes(services, "InvalidRayServiceSpec")
    assert refused.startswith("spec.serveConfigV2")
