"""A hundred RayServices: at rest they cost their probes, and dead dashboards harm no other."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.integration.crowds import PartlySilentRay
from tests.integration.harness import embedded_world
from tests.integration.rayservices import Services, condition, service_manifest
from tests.integration.test_all_kinds import asked

pytestmark = pytest.mark.slow

LIVE, DEAD = 90, 10
TEN_MINUTES = 600.0
SERVE = 30
"""Most requests to a dashboard in ten minutes: one in 30 s when nothing has changed for long."""
PROXY = 65
"""The same for a proxy, which is asked every 10 s."""


def small(name: str) -> dict[str, Any]:
    manifest = service_manifest(name)
    manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"] = []
    return manifest


async def ready(services: Services) -> set[str]:
    found = await services.all()
    return {each.metadata.name for each in found if condition(each.status, "Ready") == "True"}


async def seconds_until(services: Services, names: set[str]) -> float:
    loop = services.world.loop
    start = loop.time()
    await services.world.becomes(
        lambda: ready(services), lambda found: names <= found, seconds=600, pause=1
    )
    return loop.time() - start


@pytest.mark.embedded_only
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("silence")
async def test_a_hundred_services_are_served_as_if_alone_and_rest():
    async with embedded_world() as world:
        services = Services(world)
        services.start_operator()
        await services.create(small("alone"))
        alone = await seconds_until(services, {"alone"})

    async with embedded_world() as world:
        services = Services(world, ray=PartlySilentRay)
        registry = CollectorRegistry()
        services.start_operator(registry=registry)
        names = {f"live-{number}" for number in range(LIVE)}
        for name in [*(f"dead-{number}" for number in range(DEAD)), *sorted(names)]:
            await services.create(small(name))
        assert await seconds_until(services, names) <= 2 * alone + 5
        await world.settle(300)

        writes, puts = asked(world), services.ray.requests(method="PUT")
        passes, since = reconciles(registry), len(services.ray.asked)
        await world.settle(TEN_MINUTES)
        assert asked(world) == writes
        assert services.ray.requests(method="PUT") == puts
        assert reconciles(registry) - passes <= 2 * (LIVE + DEAD)
        probes = Counter((each.head.pod_uid, each.path) for each in services.ray.asked[since:])
        most = Counter[str]()
        for (_, path), count in probes.items():
            most[path] = max(most[path], count)
        assert dict(most.items()).keys() == {"/api/serve/applications/", "/-/healthz"}
        assert most["/api/serve/applications/"] <= SERVE
        assert most["/-/healthz"] <= PROXY
        assert await ready(services) == names


def reconciles(registry: CollectorRegistry) -> float:
    """Passes of the controller of RayServices so far."""
    return sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "controller_runtime_reconcile_total"
        and sample.labels["controller"] == "rayservice-controller"
    )
