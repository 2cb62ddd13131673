"""Rolling updates of RayClusters, from the edit to the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import labels
from controller.ray.dashboard import JobStatus
from controller.testing.faults import ErrorResponse, LostRequest, Rule, watch_lag
from tests.integration.harness import embedded_world
from tests.integration.rolling import RollingWorld, rolling_manifest
from tests.ray.dashboard.simulated import NEVER, Course, Fault

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]


@asynccontextmanager
async def a_cluster(*groups: int, **options: Any) -> AsyncIterator[RollingWorld]:
    """A ready cluster with an operator, in which nothing may break a promise."""
    async with embedded_world() as world:
        rolling = RollingWorld(world, rolling_manifest(*groups, **options))
        rolling.start_operator()
        await rolling.create()
        yield rolling
        assert rolling.referee.wrong == []


def uids(pods: list[Pod]) -> set[str]:
    return {pod.metadata.uid for pod in pods}


async def test_workers_of_two_groups_are_replaced_once_and_within_the_budget() -> None:
    async with a_cluster(3, 2) as rolling:
        before = uids(rolling.workers())
        await rolling.edit("new")
        await rolling.completes()
        await rolling.world.settle(30)
        after = uids(rolling.workers())
        assert len(after) == 5
        assert not before & after
        assert rolling.world.journal.workers_created() == 10
        events = await rolling.events()
        assert events.count("UpgradeStarted") == 1
        assert events.count("UpgradeComplete") == 1
        assert (await rolling.condition())["status"] == "False"
        assert "upgrade" not in (await rolling.world.cluster()).status


async def test_each_worker_is_drained_before_its_pod_goes() -> None:
    async with a_cluster(2, drainTimeoutSeconds=100) as rolling:
        nodes = rolling.nodes()
        busy = {pod.metadata.uid: 1e9 for pod in rolling.workers()}
        nodes.work.update(busy)
        began = rolling.world.loop.time()
        await rolling.edit("new")
        await rolling.completes()
        assert rolling.world.loop.time() - began > 200  # two drains that take all their time
        assert len(nodes.drained) == 2


async def test_an_old_ray_that_cannot_drain_is_not_waited_for() -> None:
    async with a_cluster(2, drainTimeoutSeconds=1000) as rolling:
        rolling.rays.ray.drain_course = Course(1.0, 1.0, JobStatus.FAILED, "no such command")
        began = rolling.world.loop.time()
        await rolling.edit("new")

        async def said() -> bool:
            message = (await rolling.condition())["message"]
            return "go without having been drained" in message and "no such command" in message

        await rolling.world.eventually(said)
        await rolling.completes()
        assert rolling.world.loop.time() - began < 200


async def test_a_paused_update_replaces_nothing_and_goes_on_when_it_is_resumed() -> None:
    async with a_cluster(3, paused=True) as rolling:
        before = uids(rolling.workers())
        await rolling.edit("new")
        await rolling.world.settle(900)
        assert uids(rolling.workers()) == before
        condition = await rolling.condition()
        assert condition["reason"] == "Paused"
        assert "0 of 3 pods updated, 3 ready, 3 outdated" in condition["message"]
        await rolling.settings(paused=False)
        await rolling.world.settle(1)
        assert (await rolling.condition())["reason"] == "Rolling"
        await rolling.completes()
        assert not before & uids(rolling.workers())
        events = await rolling.events()
        assert {"UpgradePaused", "UpgradeResumed", "UpgradeComplete"} <= set(events)


async def test_a_pause_half_way_stops_and_a_rollback_goes_back() -> None:
    async with a_cluster(4) as rolling:
        world = rolling.world
        before = uids(rolling.workers())
        await rolling.edit("new")
        await world.eventually(lambda: len(before - uids(rolling.workers())) == 2, seconds=300)
        await rolling.settings(paused=True)
        await world.settle(60)
        half = uids(rolling.workers())
        await world.settle(300)
        assert uids(rolling.workers()) == half
        await rolling.patch({"workerGroupSpecs": rolling.manifest["spec"]["workerGroupSpecs"]})
        await rolling.settings(paused=False)
        await rolling.completes()
        assert len(rolling.workers()) == 4
        assert len(before & uids(rolling.workers())) >= 1, "what was never touched stays"


async def test_while_no_status_can_be_stored_nothing_is_replaced_but_a_lost_worker_is() -> None:
    async with a_cluster(2) as rolling:
        world = rolling.world
        (operator,) = world.operators
        refused = ErrorResponse(403, "Forbidden", "no status for anybody")
        rule = Rule(refused, "rayclusters.ray.io", frozenset({"patch"}))
        operator.transport.rules.append(rule)
        lost, kept = rolling.workers()
        await rolling.edit("new")
        await world.settle(60)
        assert uids(rolling.workers()) == uids([lost, kept])
        rolling.referee.spared.add(lost.metadata.name)
        await world.user.delete(PODS, world.namespace, lost.metadata.name)
        await world.settle(60)
        assert len(rolling.workers()) == 2
        assert kept.metadata.uid in uids(rolling.workers())
        operator.transport.rules.remove(rule)
        await rolling.completes()
        assert not {kept.metadata.uid} & uids(rolling.workers())


async def test_replicas_of_several_hosts_are_replaced_whole() -> None:
    async with a_cluster(2, hosts=2) as rolling:
        await rolling.edit("new")
        await rolling.completes()
        await rolling.world.settle(30)
        replicas = [pod.metadata.labels[labels.REPLICA_NAME] for pod in rolling.workers()]
        assert sorted(map(replicas.count, set(replicas))) == [2, 2]
        assert rolling.world.journal.workers_created() == 8


async def head_service(rolling: RollingWorld) -> tuple[str, Any]:
    """Uid and specification of the service that leads to the head, its address included."""
    world = rolling.world
    service = await world.user.get(SERVICES, world.namespace, "example-head-svc")
    return service.metadata.uid, service.spec


async def test_the_head_is_replaced_last_with_fault_tolerance() -> None:
    async with a_cluster(2, fault_tolerant=True) as rolling:
        world = rolling.world
        (head,) = rolling.rays.heads()
        front = await head_service(rolling)
        await rolling.edit("new", head=True)
        await rolling.completes()
        await world.eventually(world.is_ready)
        assert await head_service(rolling) == front, "workers find the new head where the old was"
        assert head.metadata.uid in world.journal.marked
        newest = max(p.metadata.creation_timestamp or "" for p in rolling.workers())
        (other,) = (pod for pod in rolling.rays.heads() if not pod.metadata.terminating)
        assert (other.metadata.creation_timestamp or "") >= newest
        assert world.journal.workers_created() == 4, "workers stay when the head goes"


async def test_without_fault_tolerance_the_head_stays_and_the_condition_says_what_to_do() -> None:
    async with a_cluster(2) as rolling:
        before = uids(rolling.workers())
        await rolling.edit("new", head=True)
        await rolling.world.settle(120)
        condition = await rolling.condition()
        assert condition["reason"] == "HeadNeedsFaultTolerance"
        assert "gcsFaultToleranceOptions" in condition["message"]
        assert not before & uids(rolling.workers())
        assert rolling.world.journal.most_live_heads == 1
        assert len(rolling.rays.heads()) == 1


async def test_another_version_of_ray_is_refused_before_anything_is_replaced() -> None:
    async with a_cluster(2) as rolling:
        before = uids(rolling.workers())
        spec = (await rolling.world.cluster()).spec
        for group in spec["workerGroupSpecs"]:
            group["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:2.61.0"
        await rolling.patch(spec)
        await rolling.world.settle(120)
        condition = await rolling.condition()
        assert condition["reason"] == "IncompatibleVersions"
        assert "Recreate" in condition["message"]
        assert "RayClusterFleet" in condition["message"]
        assert uids(rolling.workers()) == before
        assert rolling.world.journal.workers_created() == 2


async def test_an_image_of_unknown_version_that_cannot_join_stops_after_one_pod() -> None:
    async with a_cluster(3, maxSurge=3, progressDeadlineSeconds=60) as rolling:
        before = uids(rolling.workers())
        spec = (await rolling.world.cluster()).spec
        spec["rayVersion"] = ""
        for group in spec["workerGroupSpecs"]:
            template = group["template"]
            template["spec"]["containers"][0]["image"] = "example.com/mine:1"
            template["metadata"] = {"annotations": {"sim.manta.dev/outcome": "crash"}}
        await rolling.patch(spec)
        await rolling.world.settle(200)
        condition = await rolling.condition()
        assert condition["reason"] == "IncompatibleVersions", condition
        assert uids(rolling.workers()) >= before
        assert len(rolling.workers()) == 4
        await rolling.patch({"workerGroupSpecs": rolling.manifest["spec"]["workerGroupSpecs"]})
        await rolling.completes()
        assert uids(rolling.workers()) == before


async def test_what_makes_no_progress_is_said_after_the_deadline() -> None:
    async with a_cluster(2, progressDeadlineSeconds=60) as rolling:
        spec = (await rolling.world.cluster()).spec
        annotations = {"sim.manta.dev/outcome": "never-ready"}
        spec["workerGroupSpecs"][0]["template"]["metadata"] = {"annotations": annotations}
        await rolling.patch(spec)
        await rolling.world.settle(90)
        condition = await rolling.condition()
        assert condition["reason"] == "ProgressDeadlineExceeded"
        assert "waiting for" in condition["message"]
        await rolling.events("UpgradeStuck")


async def test_a_template_that_never_becomes_ready_stops_at_its_first_group() -> None:
    async with embedded_world() as world:
        rolling = RollingWorld(world, rolling_manifest(1, 1, maxSurge=0, maxUnavailable=1))
        operator = rolling.start_operator()
        await rolling.create()
        (second,) = (pod for pod in rolling.workers() if "group-1" in pod.metadata.name)
        spec = (await world.cluster()).spec
        annotations = {"sim.manta.dev/outcome": "never-ready"}
        for group in spec["workerGroupSpecs"]:
            group["template"]["metadata"] = {"annotations": annotations}
        await rolling.patch(spec)
        for _ in range(3):
            await world.settle(900)
            await operator.kill()
            operator = rolling.start_operator()
        await world.settle(60)
        assert second.metadata.uid in uids(rolling.workers())
        assert (
            "group group-0: 1 of 1 pods updated, 0 ready" in (await rolling.condition())["message"]
        )
        await rolling.patch({"workerGroupSpecs": rolling.manifest["spec"]["workerGroupSpecs"]})
        await rolling.completes()
        assert second.metadata.uid in uids(rolling.workers()), "it was never touched"
        assert rolling.referee.wrong == []


async def test_new_workers_that_somebody_deletes_again_and_again_are_named() -> None:
    async with a_cluster(2) as rolling:
        world, before = rolling.world, uids(rolling.workers())
        known = set(before)
        await rolling.edit("new")
        for _ in range(3):
            await world.eventually(lambda: uids(rolling.workers()) - known, seconds=60)
            (new,) = (pod for pod in rolling.workers() if pod.metadata.uid not in known)
            known.add(new.metadata.uid)
            await world.user.delete(PODS, world.namespace, new.metadata.name)
        words = "was deleted by another client; pods were lost 3 times in a row"

        async def is_said() -> bool:
            return words in (await rolling.condition())["message"]

        await world.eventually(is_said, seconds=10)
        await rolling.completes()
        assert not before & uids(rolling.workers())


async def test_while_ray_does_not_answer_nothing_is_replaced() -> None:
    async with a_cluster(2) as rolling:
        before = uids(rolling.workers())
        rolling.rays.ray.fault(Fault.SILENT)
        await rolling.edit("new")
        await rolling.world.settle(300)
        assert uids(rolling.workers()) == before
        condition = await rolling.condition()
        assert condition["reason"] == "RayDoesNotAnswer"
        assert "while the dashboard of the head does not answer; see" in condition["message"]
        rolling.rays.ray.fault(None)
        await rolling.completes()


async def test_outdated_pods_that_nobody_has_edited_are_held_and_said() -> None:
    async with a_cluster(2) as rolling:
        world = rolling.world
        before = uids(rolling.workers())
        for pod in rolling.workers():
            patch = {"metadata": {"annotations": {labels.TEMPLATE_HASH: "3-of-another-template"}}}
            await world.user.merge_patch(PODS, world.namespace, pod.metadata.name, patch)
        await world.settle(120)
        assert uids(rolling.workers()) == before
        assert (await rolling.condition("DeletionHeld"))["status"] == "True"
        assert (await rolling.condition())["reason"] == "NotExplained"
        await rolling.edit("new")
        await rolling.completes()
        assert not before & uids(rolling.workers())


async def test_a_mark_that_is_lost_again_and_again_waits_also_while_the_cache_is_behind() -> None:
    async with embedded_world() as world:
        rolling = RollingWorld(world, rolling_manifest(2, maxSurge=0, maxUnavailable=1))
        operator = rolling.start_operator()
        await rolling.create()
        lost = Rule(LostRequest(), "pods", frozenset({"patch"}))
        operator.transport.rules = [watch_lag("pods", 100.0), lost]
        for pod in rolling.workers():  # reads find another revision than the cache
            patch = {"metadata": {"annotations": {"edited": "by another"}}}
            await world.user.merge_patch(PODS, world.namespace, pod.metadata.name, patch)
        await rolling.edit("new")
        await world.settle(60)
        assert 3 <= lost.seen <= 8, "at once, once more, and after 1, 2, 4 ... s"


async def test_with_another_strategy_what_drains_already_still_goes() -> None:
    async with a_cluster(2) as rolling:
        await rolling.edit("new")
        drained = rolling.nodes().drained
        await rolling.world.eventually(lambda: drained)
        await rolling.patch({"upgradeStrategy": {"type": "None", "rollingUpdate": None}})
        await rolling.world.settle(30)  # far less than a drain may take
        assert not (await rolling.condition())["status"]
        annotations = [pod.metadata.annotations or {} for pod in rolling.workers()]
        assert len(annotations) == 2
        assert not any(labels.DRAINING_SINCE in each for each in annotations)


async def test_status_and_condition_count_what_is_done() -> None:
    async with a_cluster(3) as rolling:
        await rolling.edit("new")
        await rolling.world.settle(3)
        status = (await rolling.world.cluster()).status
        (group,) = status["upgrade"]["groups"]
        assert group["name"] == "group-0"
        assert group["desired"] == 3
        assert group["updated"] + group["outdated"] in {3, 4}
        assert "outdated" in (await rolling.condition())["message"]


async def test_a_cluster_with_surge_is_ready_all_the_while() -> None:
    async with a_cluster(3) as rolling:
        world = rolling.world
        before = await rolling.condition("Ready")
        await rolling.edit("new")
        await rolling.completes()
        await world.settle(5)
        assert (await rolling.condition("Ready"))["status"] == "True"
        after = await rolling.condition("Ready")
        assert after["lastTransitionTime"] == before["lastTransitionTime"]


async def test_an_actor_that_never_ends_keeps_its_worker_until_the_deadline() -> None:
    async with a_cluster(1, drainTimeoutSeconds=120) as rolling:
        (old,) = rolling.workers()
        rolling.nodes().work[old.metadata.uid] = NEVER
        await rolling.edit("new")

        async def drains() -> bool:
            return (await rolling.condition()).get("reason") == "Draining"

        await rolling.world.eventually(drains)
        assert (
            f"{old.metadata.name} is being drained; actors cannot be migrated"
            in (await rolling.condition())["message"]
        )
        await rolling.world.settle(100)
        assert old.metadata.uid in uids(rolling.workers())
        await rolling.world.settle(30)
        assert old.metadata.uid not in uids(rolling.workers())
        await rolling.completes()


async def test_the_turn_passes_on_while_writes_of_another_group_fail() -> None:
    async with a_cluster(1, 1, 1) as rolling:
        world = rolling.world
        (operator,) = world.operators
        refused = ErrorResponse(403, "Forbidden", "exceeded quota")
        creates = frozenset({"create"})
        rule = Rule(refused, "pods", creates, name=lambda name: "group-2" in name)
        operator.transport.rules.append(rule)
        spec = (await world.cluster()).spec
        spec["workerGroupSpecs"][2]["replicas"] = 2
        await rolling.patch(spec)
        await world.settle(30)
        before = {pod.metadata.uid for pod in rolling.workers()}
        await rolling.edit("new", 0, 1)
        await world.settle(120)
        kept = [pod for pod in rolling.workers() if pod.metadata.uid in before]
        assert [pod.metadata.labels[labels.GROUP] for pod in kept] == ["group-2"]
