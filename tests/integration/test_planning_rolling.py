"""`manta plan` for RayClusters under RollingUpdate: which pods each step replaces."""

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
from tests.integration.harness import World, example_cluster
from tests.integration.rayservices import Services, service_manifest, with_image
from tests.integration.rolling import rolling_manifest, set_variable

pytestmark = pytest.mark.slow

NEW = "rayproject/ray:2.52.0-cpu"


def edition(image: str = "", replicas: int = 3, **settings: Any) -> dict[str, Any]:
    """A head of 1 CPU and workers of 2 CPUs and a GPU; with the image in the workers."""
    raw = example_cluster(replicas=replicas)
    spec = raw["spec"]
    spec["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": settings}
    head, worker = spec["headGroupSpec"], spec["workerGroupSpecs"][0]
    for group, limits in ((head, {"cpu": "1"}), (worker, {"cpu": "2", "nvidia.com/gpu": "1"})):
        group["template"]["spec"]["containers"][0]["resources"] = {"limits": limits}
    if image:
        worker["template"]["spec"]["containers"][0]["image"] = image
    return raw


async def planned(world: World, manifest: dict[str, Any]) -> ObjectPlan:
    planner = Planner(world.user, kinds_to_plan(KindSettings()), world.wall())
    return await planner.for_manifest(manifest, world.namespace)


async def running(world: World, manifest: dict[str, Any]) -> None:
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)
    await world.eventually(world.is_ready)


def shapes(plan: ObjectPlan) -> list[tuple[tuple[str, int, int, int], ...]]:
    assert plan.rolling is not None, plan
    return [step.shape for step in plan.rolling.steps]


async def test_with_a_surge_a_new_pod_comes_first_and_an_old_one_goes_when_it_is_ready(
    world: World,
):
    await running(world, edition())
    plan = await planned(world, edition(NEW))
    swap = (("workers", 1, 1, 1),)
    assert shapes(plan) == [(("workers", 0, 0, 1),), swap, swap, (("workers", 1, 1, 0),)]
    assert plan.rolling is not None
    assert (plan.rolling.before, plan.rolling.peak, plan.rolling.after) == (
        Usage(4, 7, 3),
        Usage(5, 9, 4),
        Usage(4, 7, 3),
    )
    deleted = [name for step in plan.rolling.steps for g in step.groups for name in g.deleted]
    assert sorted(deleted) == sorted(pod.metadata.name for pod in world.journal.workers())
    text = "\n".join(line for _, line in text_of(plan))
    assert "1. group workers: create 1 Pod\n" in text
    assert "2. to 3., each: group workers: drain and delete 1 Pod, create 1 Pod\n" in text
    assert "at the peak 5 Pods, 9 CPUs, 4 GPUs; 4 Pods, 7 CPUs, 3 GPUs before" in text


async def test_groups_take_turns_replicas_go_whole_and_the_head_goes_last(world: World):
    first = rolling_manifest(2, 1, hosts=2, fault_tolerant=True)
    second = copy.deepcopy(first)
    for group in (second["spec"]["headGroupSpec"], *second["spec"]["workerGroupSpecs"]):
        set_variable(group, "new")
    await running(world, first)
    plan = await planned(world, second)
    assert shapes(plan) == [
        (("group-0", 0, 0, 2),),
        (("group-0", 2, 2, 2),),
        (("group-0", 2, 2, 0), ("group-1", 0, 0, 2)),
        (("group-1", 2, 2, 0), ("headgroup", 0, 1, 1)),
    ]
    assert plan.rolling is not None
    usage = plan.rolling.before, plan.rolling.peak, plan.rolling.after
    assert [each.pods for each in usage] == [7, 9, 7]


async def test_each_of_very_many_pods_may_have_a_step_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("controller.command.planning.dry_run.MOST_ROUNDS", 12)
    await running(world, edition(replicas=10))
    assert len(shapes(await planned(world, edition(NEW, replicas=10)))) == 11


async def test_the_time_is_measured_from_the_present_pods(world: World):
    await running(world, edition())
    plan = await planned(world, edition(NEW))
    assert plan.rolling is not None
    seconds = [step.seconds for step in plan.rolling.steps]
    assert seconds[-1] == 0
    assert seconds[0] == seconds[1] == seconds[2]
    total = sum(filter(None, seconds))
    assert plan.rolling.seconds == total
    assert 0 < total < 60
    text = "\n".join(line for _, line in text_of(plan))
    assert "drains come on top, at most 5 min in each of the steps that drain" in text


async def test_an_edit_that_replaces_nothing_has_no_steps(world: World):
    await running(world, edition())
    assert (await planned(world, edition(replicas=2))).rolling is None
    assert (await planned(world, edition(replicas=5))).rolling is None
    assert (await planned(world, edition(maxSurge=2))).rolling is None
    paused = await planned(world, edition(NEW, paused=True))
    assert paused.rolling is None
    assert any("paused" in note for note in paused.notes)


# -- RayServices ---------------------------------------------------------------------------------


async def planned_service(services: Services, manifest: dict[str, Any]) -> ObjectPlan:
    world = services.world
    planner = Planner(world.user, kinds_to_plan(KindSettings()), world.wall())
    return await planner.for_manifest(manifest, world.namespace)


async def running_service(services: Services, manifest: dict[str, Any]) -> str:
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
    plan = await planned_service(services, sized())
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

    await running_service(services, sized())
    pods = await services.world.user.list(PODS, services.world.namespace)
    assert len(pods.items) == plan.rollout.peak.pods


@pytest.mark.timeout(180)  # a minute of it passes on a real server, too
async def test_a_new_image_is_planned_as_another_cluster_that_takes_over(services: Services):
    old = await running_service(services, sized(rayClusterDeletionDelaySeconds=30))
    before = await services.service()
    edited = with_image(sized(rayClusterDeletionDelaySeconds=30), "rayproject/ray:2.53.0")
    plan = await planned_service(services, edited)
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


async def test_an_added_group_and_new_bounds_are_planned_in_place_with_their_pods(
    services: Services,
):
    name = await running_service(services, sized())
    edited = sized()
    groups = edited["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    groups.append(copy.deepcopy(groups[0]) | {"groupName": "more", "replicas": 2})
    groups[0]["maxReplicas"] = 7
    plan = await planned_service(services, edited)
    assert steps(plan) == [("change", name)]
    assert plan.rollout is not None
    assert plan.rollout.after == plan.rollout.peak == Usage(4, 7, 3)
    assert [(item.group, item.count) for item in plan.items if item.action == "create"] == [
        ("more", 2)
    ]


async def test_the_text_says_the_order_and_the_peak_and_json_has_them(services: Services):
    old = await running_service(services, sized())
    plan = await planned_service(services, with_image(sized(), "rayproject/ray:2.53.0"))
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
