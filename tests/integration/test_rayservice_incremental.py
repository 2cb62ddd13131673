"""Incremental upgrades of RayServices, on simulated Serves and a simulated gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from controller.kube.resources import GATEWAYS, HTTP_ROUTES, PODS, SERVICES
from tests.fakes.gateways import (
    SimulatedListeners,
    install_gateway_api,
    remove_gateway_api,
    simulated_gateways,
)
from tests.integration.harness import World
from tests.integration.incremental import (
    INTERVAL,
    ROUTE,
    between,
    capacities,
    heads_of,
    incremental_manifest,
    watched,
    with_resources,
    without_capacity,
)
from tests.integration.rayservices import Services, condition, message, reason, serve_config
from tests.integration.test_rayservices import greeting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest_asyncio.fixture
async def services(world: World) -> Services:
    await install_gateway_api(world)
    return Services(world)


@pytest_asyncio.fixture
async def listeners(services: Services) -> AsyncIterator[SimulatedListeners]:
    async with simulated_gateways(services.world) as found:
        yield found


async def serving(services: Services, manifest: dict[str, Any]) -> str:
    """Deploy and wait until the route leads to the first cluster; its name."""
    services.start_operator()
    name = await services.deployed(manifest)
    await services.world.settle(10)
    return name


async def upgraded(services: Services, old: str) -> str:
    """Wait until another cluster has taken over; its name."""
    return await services.taken_over(old, seconds=600)


async def test_gateway_route_and_services_are_those_of_kuberay(
    services: Services, listeners: SimulatedListeners
):
    name = await serving(services, incremental_manifest())
    user, namespace = services.world.user, services.world.namespace
    gateway = await user.get(GATEWAYS, namespace, "svc-gateway")
    assert gateway.spec.gateway_class_name == "example"
    [listener] = gateway.spec.listeners
    assert {key: listener[key] for key in ("name", "protocol", "port")} == {
        "name": "http",
        "protocol": "HTTP",
        "port": 80,
    }
    route = await user.get(HTTP_ROUTES, namespace, ROUTE)
    assert [(ref["name"], ref["namespace"]) for ref in route.spec.parent_refs] == [
        ("svc-gateway", namespace)
    ]
    [rule] = route.spec.rules
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}}]
    [backend] = rule["backendRefs"]
    assert (backend["name"], backend["port"], backend["weight"]) == (f"{name}-serve-svc", 8000, 100)
    service = await user.get(SERVICES, namespace, f"{name}-serve-svc")
    assert service.spec.selector == {"ray.io/cluster": name, "ray.io/serve": "true"}
    assert service.metadata.controller is not None
    assert service.metadata.controller.name == name
    assert listeners.weights == {ROUTE: {f"{name}-serve-svc": 100}}
    assert await routed(services) == 100


async def routed(services: Services) -> int:
    """What the status says that the active cluster gets of the requests: clients wait for it."""
    return (await services.status())["activeServiceStatus"]["trafficRoutedPercent"]


async def test_at_every_capacity_only_the_target_capacity_of_a_put_to_the_active_cluster_differs(
    services: Services, listeners: SimulatedListeners
):
    manifest = incremental_manifest(replicas=2)
    old = await serving(services, manifest)
    old_serve = services.serve_of(old)
    before = len(old_serve.puts)
    async with watched(services, listeners) as upgrades:
        await services.edit(with_resources(manifest, replicas=4))
        new = await upgraded(services, old)
        new_serve = services.serve_of(new)
        assert await routed(services) == 100
        await services.world.settle(60)
    assert not upgrades.failures
    served = without_capacity(old_serve.puts[0])
    assert [without_capacity(put) for put in old_serve.puts] == [served] * len(old_serve.puts)
    assert capacities(old_serve.puts[before:])[:5] == [100, 80, 60, 40, 20]
    assert {greeting(put) for put in new_serve.puts} == {"hello"}
    moved = [each for each in capacities(new_serve.puts) if each != 0]
    assert moved == [20, 40, 60, 80, 100, None]
    assert [each.weight for each in upgrades.shares if each.weight] == sorted(
        each.weight for each in upgrades.shares if each.weight
    )
    assert set(upgrades.asked) == {old, new}
    assert listeners.weights == {ROUTE: {f"{new}-serve-svc": 100}}
    status = await services.status()
    assert condition(status, "UpgradeInProgress") == "False"
    assert await services.clusters() == [new]


async def half_way(services: Services, weight: int = 40) -> dict[str, Any]:
    """Wait until the pending cluster has this share of the requests; the status then."""
    return await services.reaches(
        lambda s: (s.get("pendingServiceStatus") or {}).get("trafficRoutedPercent", 0) >= weight,
        seconds=300,
    )


async def rolled_back(services: Services) -> None:
    await services.reaches(
        lambda s: not s.get("pendingServiceStatus") and not condition(s, "RollbackInProgress"),
        seconds=300,
    )


async def test_a_reverted_edit_hands_everything_back_half_way(
    services: Services, listeners: SimulatedListeners
):
    manifest = incremental_manifest()
    old = await serving(services, manifest)
    puts = services.serve_of(old).puts
    async with watched(services, listeners) as upgrades:
        await services.edit(with_resources(manifest, replicas=4))
        await half_way(services)
        new = await services.pending()
        new_puts = services.serve_of(new).puts
        await services.edit(manifest)
        await services.reaches(lambda s: condition(s, "RollbackInProgress") == "True")
        await rolled_back(services)
        await services.world.settle(60)
    assert not upgrades.failures
    assert {greeting(put) for put in puts} == {"hi"}
    assert {greeting(put) for put in new_puts} == {"hello"}
    assert len({str(without_capacity(put)) for put in puts}) == 1
    assert capacities(puts)[-1] is None
    assert await services.active() == old
    assert await services.clusters() == [old]
    assert listeners.weights == {ROUTE: {f"{old}-serve-svc": 100}}
    assert await routed(services) == 100


@pytest.mark.parametrize(
    "edit",
    [
        {"serveConfigV2": "applications: 1"},
        {"upgradeStrategy": {"clusterUpgradeOptions": {"stepSizePercent": 200}}},
        {"upgradeStrategy": {"clusterUpgradeOptions": None}},
    ],
    ids=["config", "step", "no options"],
)
async def test_an_upgrade_ends_step_by_step_whatever_the_specification_says(
    services: Services, listeners: SimulatedListeners, edit: dict[str, Any]
):
    manifest = incremental_manifest()
    old = await serving(services, manifest)
    async with watched(services, listeners) as upgrades:
        await services.edit(with_resources(manifest, replicas=4))
        await half_way(services)
        new = await services.pending()
        await services.patch(**edit)
        await services.reaches(lambda s: reason(s, "Ready") == "ValidationFailed")
        assert await upgraded(services, old) == new
        await services.world.settle(120)
    assert not upgrades.failures
    assert [pause for pause in between(upgrades.moved) if pause < INTERVAL - 1.5] == []
    assert listeners.weights == {ROUTE: {f"{new}-serve-svc": 100}}
    assert await services.clusters() == [new]
    assert reason(await services.status(), "Ready") == "ValidationFailed"


@pytest.mark.vital
async def test_a_config_edited_in_an_upgrade_goes_to_the_pending_cluster_only(
    services: Services, listeners: SimulatedListeners
):
    manifest = incremental_manifest()
    old = await serving(services, manifest)
    puts = services.serve_of(old).puts
    async with watched(services, listeners) as upgrades:
        edited = with_resources(manifest, replicas=4)
        await services.edit(edited)
        await half_way(services)
        new_serve = services.serve_of(await services.pending())
        edited["spec"]["serveConfigV2"] = serve_config("later", replicas=4)
        await services.edit(edited)
        new = await upgraded(services, old)
        await services.world.settle(10)
    assert all(new in each for each in upgrades.unanswered)  # Serve replaces its replicas at once
    assert len(upgrades.unanswered) < 16
    assert {greeting(put) for put in puts} == {"hi"}
    assert [greeting(put) for put in new_serve.puts] == sorted(
        greeting(put) for put in new_serve.puts
    )
    assert greeting(new_serve.puts[-1]) == "later"


@pytest.mark.vital
async def test_a_config_edited_in_a_rollback_goes_to_neither_until_it_is_complete(
    services: Services, listeners: SimulatedListeners
):
    manifest = incremental_manifest()
    old = await serving(services, manifest)
    serve = services.serve_of(old)
    async with watched(services, listeners) as upgrades:
        await services.edit(with_resources(manifest, replicas=4))
        await half_way(services)
        given_up = services.serve_of(await services.pending()).puts
        await services.edit(manifest)
        await services.reaches(lambda s: condition(s, "RollbackInProgress") == "True")
        edited = incremental_manifest()
        edited["spec"]["serveConfigV2"] = serve_config("later")
        await services.edit(edited)
        while condition(await services.status(), "RollbackInProgress") == "True":
            assert {greeting(put) for put in serve.puts} == {"hi"}
            await services.world.settle(0.5)
        assert not upgrades.failures
    await services.world.eventually(lambda: greeting(serve.puts[-1]) == "later")
    await services.world.settle(10)
    assert {greeting(put) for put in given_up} == {"hello"}


@pytest.mark.vital
async def test_an_operator_killed_in_the_middle_changes_nothing(
    services: Services, listeners: SimulatedListeners
):
    manifest = incremental_manifest()
    old = await serving(services, manifest)
    puts = services.serve_of(old).puts
    async with watched(services, listeners) as upgrades:
        await services.edit(with_resources(manifest, replicas=4))
        for weight in (20, 60):
            await half_way(services, weight)
            await services.world.operators[-1].kill()
            await services.world.settle(20)
            services.start_operator()
        new = await upgraded(services, old)
        new_puts = services.serve_of(new).puts
        await services.world.settle(30)
    assert not upgrades.failures
    assert {greeting(put) for put in puts} == {"hi"}
    assert {greeting(put) for put in new_puts} == {"hello"}


async def test_the_gateway_api_may_be_installed_while_an_upgrade_waits_for_it(
    world: World, services: Services
):
    await remove_gateway_api(world)
    manifest = incremental_manifest()
    old = await serving(services, manifest)
    status = await services.status()
    assert "install its definitions" in message(status, "UpgradeInProgress")
    await services.edit(with_resources(manifest, replicas=4))
    await services.reaches(
        lambda s: "Gateway API is not installed" in message(s, "UpgradeInProgress")
    )
    await world.settle(60)
    assert await services.active() == old
    assert await services.selected() == old
    await install_gateway_api(world)
    async with simulated_gateways(world):
        await upgraded(services, old)


@pytest.mark.parametrize("role", ["active", "pending"])
async def test_a_lost_head_in_an_upgrade_costs_no_more_than_its_own_share(
    services: Services, listeners: SimulatedListeners, role: str
):
    manifest = incremental_manifest()
    old = await serving(services, manifest)
    async with watched(services, listeners) as upgrades:
        await services.edit(with_resources(manifest, replicas=4))
        await half_way(services)
        clusters = {"active": old, "pending": await services.pending()}
        before = {name: services.serve_of(cluster) for name, cluster in clusters.items()}
        [head] = heads_of(services, clusters[role])
        await services.world.user.delete(PODS, services.world.namespace, head)
        await services.world.settle(1)
        new = await upgraded(services, old)
        await services.world.settle(30)
    lost = clusters[role]
    assert all(lost in each for each in upgrades.unanswered), upgrades.unanswered
    assert len(upgrades.unanswered) < 60
    assert new == clusters["pending"]
    assert {greeting(put) for put in before["active"].puts} == {"hi"}
    assert {greeting(put) for put in services.serve_of(new).puts} == {"hello"}


async def test_a_suspension_in_an_upgrade_deletes_gateway_and_route_too(
    services: Services, listeners: SimulatedListeners
):
    manifest = incremental_manifest()
    await serving(services, manifest)
    await services.edit(with_resources(manifest, replicas=4))
    await half_way(services)
    await services.patch(suspend=True)
    await services.reaches(lambda s: condition(s, "Suspended") == "True")
    user, namespace = services.world.user, services.world.namespace
    assert not (await user.list(GATEWAYS, namespace)).items
    assert not (await user.list(HTTP_ROUTES, namespace)).items
    await services.patch(suspend=False)
    await services.serving()
    await services.world.eventually(lambda: listeners.weights.get(ROUTE))
