"""Bugs of RayServices that only a life shows not to be here, by number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from controller.kube.errors import KubeError
from controller.kube.objects import Pod
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS, labels
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World, is_ready
from tests.integration.rayservices import (
    Services,
    asked,
    condition,
    message,
    reason,
    service_manifest,
    with_image,
)
from tests.integration.test_takeover_of_services import left_by_kuberay
from tests.ray.dashboard.simulated import Fault

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.embedded_only]

IMAGE = "rayproject/ray:2.53.0"


async def test_a_cluster_that_a_service_selects_is_not_deleted(services: Services):
    operator = services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=5)
    old = await services.deployed(manifest)
    failures: list[str] = []
    async with asked(services, failures):
        refused = ErrorResponse(403, "Forbidden", "not now, {n}")
        operator.transport.rules = [Rule(refused, "services", frozenset({"patch", "update"}))]
        await services.edit(with_image(manifest, IMAGE))
        await services.world.settle(300)
        assert old in await services.clusters()
        operator.transport.rules = []
        await services.taken_over(old, seconds=120)
        await services.world.settle(60)
    assert failures == []
    assert await services.clusters() == [await services.active()]


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


async def test_an_invalid_edit_keeps_no_cluster_that_was_replaced_before(services: Services):
    services.start_operator()
    manifest = service_manifest(rayClusterDeletionDelaySeconds=100)
    old = await services.deployed(manifest)
    await services.edit(with_image(manifest, IMAGE))
    await services.taken_over(old)
    await services.world.settle(5)
    await services.patch(serveConfigV2="applications: 1")
    await services.world.settle(60)
    assert old in await services.clusters()
    await services.world.settle(60)
    assert await services.clusters() == [await services.active()]
    assert reason(await services.status(), "Ready") == "ValidationFailed"


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


async def test_a_suspension_that_has_begun_ends_whatever_the_specification_says(services: Services):
    operator = services.start_operator()
    await services.deployed()
    refused = ErrorResponse(403, "Forbidden", "not now, {n}")
    operator.transport.rules = [Rule(refused, "services", frozenset({"delete"}))]
    await services.patch(suspend=True)
    await services.reaches(lambda s: condition(s, "Suspending") == "True")
    await services.patch(serveConfigV2="applications: 1")
    await services.world.settle(10)
    operator.transport.rules = []
    await services.reaches(lambda s: condition(s, "Suspended") == "True")
    assert await services.clusters() == []


async def test_a_suspension_does_not_wait_for_the_correction_of_another_field(services: Services):
    services.start_operator()
    await services.deployed()
    await services.patch(suspend=True, serveConfigV2="applications: 1")
    await services.reaches(lambda s: condition(s, "Suspended") == "True")
    assert await services.clusters() == []
    await services.world.settle(10)
    assert reason(await services.status(), "Ready") == "ValidationFailed"
    await services.patch(suspend=False)
    await services.world.settle(10)
    assert await services.clusters() == []


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


async def test_clusters_are_suspended_and_resumed_as_kueue_asks(services: Services):
    services.start_operator()
    await services.create(suspended(service_manifest(), suspend=True))
    await services.world.settle(30)
    assert services.world.journal.created == {}
    await services.patch(rayClusterConfig={"suspend": False})
    name = await services.serving()

    await services.patch(rayClusterConfig={"suspend": True})
    await services.world.eventually(lambda: not services.world.journal.present, seconds=60)
    await services.patch(rayClusterConfig={"suspend": False})
    await services.world.eventually(services.is_ready, seconds=120)
    assert await services.active() == name


def suspended(manifest: dict[str, Any], *, suspend: bool) -> dict[str, Any]:
    manifest["spec"]["rayClusterConfig"]["suspend"] = suspend
    return manifest


async def test_what_stays_wrong_is_reported_once(services: Services):
    operator = services.start_operator()
    services.ray.fault(Fault.ERROR)
    await services.create()
    await services.world.settle(120)
    since = len(operator.transport.journal.entries)
    await services.world.settle(600)
    entries = operator.transport.journal.entries[since:]
    assert [each for each in entries if each.attributes.writes] == []


async def test_the_time_to_initialize_begins_anew_with_a_resumption(services: Services):
    services.start_operator()
    manifest = service_manifest(suspend=True)
    manifest["metadata"]["annotations"] = {"ray.io/initializing-timeout": "60"}
    await services.create(manifest)
    await services.world.settle(300)
    await services.patch(suspend=False)
    assert await services.serving()


# -- a RayService's edit is not lost while it cannot be recorded from what a cluster was created ---


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
