"""`manta plan` for incremental upgrades: Gateway, route, steps and peak."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from controller.command.kinds import KindSettings, kinds_to_plan
from controller.command.planning.offline import empty_cluster
from controller.command.planning.plan import text_of
from controller.command.planning.planner import Planner
from controller.command.planning.upgrades import Usage
from tests.fakes.gateways import install_gateway_api, simulated_gateways
from tests.integration.harness import World
from tests.integration.incremental import incremental_manifest
from tests.integration.rayservices import Services, with_image
from tests.integration.test_planning_rolling import planned_service, running_service, sized

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture
async def services(world: World) -> Services:
    await install_gateway_api(world)
    return Services(world)


def stepwise() -> dict[str, Any]:
    """A RayService of half steps, whose workers ask for 2 CPUs and a GPU each."""
    manifest = incremental_manifest(maxSurgePercent=50, stepSizePercent=50)
    return sized(
        upgradeStrategy=manifest["spec"]["upgradeStrategy"], rayClusterDeletionDelaySeconds=30
    )


def autoscaled(manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = True
    return manifest


async def test_an_incremental_upgrade_is_planned_and_done_in_the_same_steps(services: Services):
    edited = with_image(autoscaled(stepwise()), "rayproject/ray:2.53.0")
    async with simulated_gateways(services.world):
        old = await running_service(services, autoscaled(stepwise()))
        plan = await planned_service(services, edited)
        await services.edit(edited)
        await services.reaches(lambda s: s["activeServiceStatus"]["rayClusterName"] != old)
    assert plan.rollout is not None
    assert [(each.action, each.cluster, each.percent) for each in plan.rollout.steps] == [
        ("scale", "svc-*", 50),
        ("create", "svc-*", 100),
        ("route", old, 50),
        ("route", "svc-*", 50),
        ("scale", old, 50),
        ("scale", "svc-*", 100),
        ("route", old, 0),
        ("route", "svc-*", 100),
        ("scale", old, 0),
        ("delete", old, 100),
    ]
    assert plan.rollout.peak == Usage(4, 7, 2)
    assert "  besides workers that Ray's autoscaler adds, up to maxReplicas of each group" in [
        text for _, text in text_of(plan)
    ]


async def test_an_upgrade_that_waits_for_its_gateway_says_so(services: Services):
    await running_service(services, autoscaled(stepwise()))
    plan = await planned_service(
        services, with_image(autoscaled(stepwise()), "rayproject/ray:2.53.0")
    )
    assert plan.rollout is not None
    assert [each.action for each in plan.rollout.steps] == ["create"]
    assert "svc-gateway is not known to be Accepted" in plan.notes[0]


@pytest.mark.embedded_only
async def test_what_divides_the_requests_of_a_new_service_is_planned_offline(world: World):
    async with empty_cluster("test", KindSettings()) as client:
        planner = Planner(client, kinds_to_plan(KindSettings()), world.wall())
        plan = await planner.for_manifest(autoscaled(stepwise()), "default")
    created = {(item.kind, item.new) for item in plan.items if item.action == "create"}
    assert plan.refusals == ()
    assert created >= {
        ("Gateway", "svc-gateway"),
        ("HTTPRoute", "svc-httproute"),
        ("Service", "svc-*-serve-svc"),
    }
