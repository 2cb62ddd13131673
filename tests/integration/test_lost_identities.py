"""A RayService's edit is not lost while it cannot be recorded from what a cluster was created."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from controller.kube.errors import KubeError
from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS, labels
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World
from tests.integration.rayservices import Services, service_manifest, with_image
from tests.integration.test_takeover_of_services import left_by_kuberay

pytestmark = pytest.mark.embedded_only

CHANGES = frozenset({"patch", "update", "replace"})
EDITED = "rayproject/ray:2.99.0"


def refused(resource: str) -> Rule:
    return Rule(ErrorResponse(403, "Forbidden", "not by policy"), resource, CHANGES)


@asynccontextmanager
async def stripped(world: World, name: str) -> AsyncIterator[None]:
    """Have another client take the annotation off again and again."""
    strip = {"metadata": {"annotations": {labels.MADE_FROM: None}}}

    async def again_and_again() -> None:
        while True:
            with suppress(KubeError):
                found = await world.user.get(RAYCLUSTERS, world.namespace, name)
                if labels.MADE_FROM in (found.metadata.annotations or {}):
                    await world.user.merge_patch(RAYCLUSTERS, world.namespace, name, strip)
            await asyncio.sleep(0.2)

    task = asyncio.create_task(again_and_again())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_edit_counts_though_the_annotation_was_gone_and_another_write_refused(
    world: World,
):
    services, manifest = Services(world), service_manifest()
    operator = services.start_operator()
    await services.deployed(manifest)
    (old,) = await services.clusters()
    async with stripped(world, old):
        await world.settle(30)
        rule = refused("services")
        operator.transport.rules.append(rule)
        for service in (await world.user.list(SERVICES, world.namespace)).items:
            if service.metadata.name.endswith("-serve-svc"):
                elsewhere = {"spec": {"selector": {"ray.io/cluster": "nobody"}}}
                name = service.metadata.name
                await world.user.merge_patch(SERVICES, world.namespace, name, elsewhere)
        await services.edit(with_image(manifest, EDITED))
        await world.settle(120)
    operator.transport.rules.remove(rule)
    await world.settle(600)
    assert await services.active() != old


async def test_an_edit_counts_though_the_take_over_could_not_be_recorded_for_a_minute(
    world: World,
):
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
