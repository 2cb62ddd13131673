"""`manta plan` for RayServices: which clusters come and go, in which order, and what that takes."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from controller.command.kinds import KindSettings, kinds_to_plan
from controller.command.planning.net_changes import ObjectPlan
from controller.command.planning.plan import text_of
from controller.command.planning.planner import Planner
from controller.command.planning.upgrades import Usage
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES
from tests.integration.rayservices import Services, serve_config, service_manifest, with_image

pytestmark = pytest.mark.slow


async def planned(services: Services, manifest: dict[str, Any]) -> ObjectPlan:
    world = services.world
    planner = Planner(world.user, kinds_to_plan(KindSettings()), world.wall())
    return await planner.for_manifest(manifest, world.namespace)


async def running(services: Services, manifest: dict[str, Any]) -> str:
    """Create it and wait until it serves; the name of its cluster."""
    services.start_operator()
    name = await services.deployed(manifest)
    await services.world.settle(5)
    return name


def sized(**spec: Any) -> dict[str, Any]:
    """A RayService whose head asks for 1 CPU, and each worker for 2 CPUs and a GPU."""
    manifest = service_manifest(**spec)
    config = manifest["spec"]["rayClusterConfig"]
    head, worker = config["headGroupSpec"], config["workerGroupSpecs"][0]
    for group, limits in ((head, {"cpu": "1"}), (worker, {"cpu": "2", "nvidia.com/gpu": "1"})):
        group["template"]["spec"]["containers"][0]["resources"] = {"limits": limits}
    return manifest


def steps(plan: ObjectPlan) -> list[tuple[str, str]]:
    assert plan.rollout is not None
    return [(step.action, step.cluster) for step in plan.rollout.steps]


async def test_what_is_planned_for_a_new_service_is_what_is_then_created(services: Services):
    plan = await planned(services, sized())
    assert (plan.problem, plan.refusals, plan.exists) == ("", (), False)
    created = {(item.kind, item.new) for item in plan.items if item.action == "create"}
    assert created >= {
        ("RayCluster", "svc-*"),
        ("Service", "svc-*-head-svc"),
        ("Service", "svc-head-svc"),
        ("Service", "svc-serve-svc"),
    }
    assert steps(plan) == [("create", "svc-*"), ("route", "svc-*")]
    assert plan.rollout is not None
    assert plan.rollout.peak == plan.rollout.after == Usage(2, 3, 1)
    assert await services.clusters() == []

    await running(services, sized())
    pods = await services.world.user.list(PODS, services.world.namespace)
    assert len(pods.items) == plan.rollout.peak.pods


@pytest.mark.timeout(180)  # a minute of it passes on a real server, too
async def test_a_new_image_is_planned_as_another_cluster_that_takes_over(services: Services):
    old = await running(services, sized(rayClusterDeletionDelaySeconds=30))
    before = await services.service()
    edited = with_image(sized(rayClusterDeletionDelaySeconds=30), "rayproject/ray:2.53.0")
    plan = await planned(services, edited)
    assert plan.rollout is not None
    assert steps(plan) == [("create", "svc-*"), ("route", "svc-*"), ("delete", old)]
    assert [step.seconds for step in plan.rollout.steps] == [0, 0, pytest.approx(30, abs=1)]
    two, four = Usage(2, 3, 1), Usage(4, 6, 2)
    assert (plan.rollout.before, plan.rollout.peak, plan.rollout.after) == (two, four, two)
    assert plan.count("delete") >= 3  # the cluster and its pods
    assert plan.refusals == ()
    assert (await services.service()).metadata.resource_version == before.metadata.resource_version

    await services.edit(edited)
    new = await services.taken_over(old)
    await services.world.settle(60)
    assert await services.clusters() == [new]


async def test_an_edit_of_the_config_alone_is_planned_in_place(services: Services):
    name = await running(services, sized())
    plan = await planned(services, sized(serveConfigV2=serve_config("hello")))
    assert steps(plan) == [("configure", name)]
    assert plan.count("create") == plan.count("delete") == 0


async def test_an_added_group_and_new_bounds_are_planned_in_place_with_their_pods(
    services: Services,
):
    name = await running(services, sized())
    edited = sized()
    groups = edited["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    groups.append(copy.deepcopy(groups[0]) | {"groupName": "more", "replicas": 2})
    groups[0]["maxReplicas"] = 7
    plan = await planned(services, edited)
    assert steps(plan) == [("change", name)]
    assert plan.rollout is not None
    assert plan.rollout.after == plan.rollout.peak == Usage(4, 7, 3)
    assert [(item.group, item.count) for item in plan.items if item.action == "create"] == [
        ("more", 2)
    ]


async def test_nothing_is_planned_for_what_is_as_it_should_be(services: Services):
    await running(services, sized())
    plan = await planned(services, sized())
    assert (plan.items, plan.rollout) == ((), None)


async def test_without_zero_downtime_a_new_image_is_planned_as_nothing(services: Services):
    manifest = sized(upgradeStrategy={"type": "None"})
    await running(services, manifest)
    plan = await planned(services, with_image(manifest, "rayproject/ray:2.53.0"))
    assert plan.edits
    assert plan.rollout is None


async def test_a_suspension_is_planned_as_the_end_of_the_cluster(services: Services):
    name = await running(services, sized())
    plan = await planned(services, sized(suspend=True))
    assert steps(plan) == [("delete", name)]
    assert plan.rollout is not None
    assert plan.rollout.after == Usage()


async def test_a_refused_edit_names_the_field_and_nothing_is_planned(services: Services):
    await running(services, sized())
    edited = sized(serveConfigV2="applications: 3")
    plan = await planned(services, edited)
    assert plan.problem.startswith("spec.serveConfigV2")
    assert (plan.items, plan.rollout) == ((), None)


async def test_the_text_says_the_order_and_the_peak_and_json_has_them(services: Services):
    old = await running(services, sized())
    plan = await planned(services, with_image(sized(), "rayproject/ray:2.53.0"))
    assert plan.rollout is not None
    wait = plan.rollout.steps[2].seconds
    lines = [text.strip() for _, text in text_of(plan)]
    begin = lines.index("in this order")
    assert lines[begin + 1 : begin + 5] == [
        "1. create RayCluster svc-*",
        "2. route all requests to RayCluster svc-*",
        f"3. after {wait} s delete RayCluster {old}",
        f"at the peak {Usage(4, 6, 2)}; {Usage(2, 3, 1)} before, {Usage(2, 3, 1)} after",
    ]
    assert str(Usage(2, 3, 1)) == "2 Pods, 3 CPUs, 1 GPU"
    found = msgspec.json.decode(msgspec.json.encode(plan))["rollout"]
    assert found["peak"] == {"pods": 4, "cpus": 6.0, "gpus": 2}
    assert found["steps"][2] == {"action": "delete", "cluster": old, "seconds": wait}


async def test_planning_for_services_writes_nothing(services: Services):
    name = await running(services, sized())
    listed = await services.world.user.list(RAYCLUSTERS, services.world.namespace)
    before = [each.metadata.resource_version for each in listed.items]
    puts = len(services.serve_of(name).puts)
    world = services.world
    planner = Planner(world.user, kinds_to_plan(KindSettings()), world.wall())
    await planned(services, with_image(sized(), "rayproject/ray:2.53.0"))
    (existing,) = [
        each
        for each in await planner.for_existing(world.namespace)
        if each.kind == RAYSERVICES.kind
    ]
    assert existing.items == ()
    after = await world.user.list(RAYCLUSTERS, world.namespace)
    assert [each.metadata.resource_version for each in after.items] == before
    assert len(services.serve_of(name).puts) == puts
