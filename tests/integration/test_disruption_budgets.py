"""Disruption budgets of RayClusters: what runs is not evicted, and what nobody uses may be."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.kube.errors import StatusError
from controller.kube.resources import DISRUPTION_BUDGETS, PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cluster import RayClusterKind
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.job import RayJobKind
from devcluster.apiserver.authorization import Attributes
from tests.integration.harness import OPERATOR, embedded_world
from tests.integration.rays import Rays
from tests.integration.test_idle_clusters import Idle, options
from tests.ray.dashboard.simulated import Course

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

HEAD, WORKERS = "example-head", "example-workers-workers"


class Budgets(Idle):
    """A world with one cluster, who uses it, and who evicts its pods."""

    async def budgets(self) -> dict[str, dict[str, Any]]:
        path = DISRUPTION_BUDGETS.path(self.world.namespace)
        listed = await self.world.user.request_json("GET", path)
        return {each["metadata"]["name"]: each["spec"] for each in listed["items"]}

    async def have(self, *names: str, seconds: float = 60) -> None:
        await self.world.becomes(
            self.budgets, lambda found: set(found) == set(names), seconds=seconds
        )

    async def evict(self, of: str) -> int:
        """The status of the answer to the eviction of the head, or of a worker."""
        path = PODS.path(self.world.namespace)
        found = [
            each["metadata"] for each in (await self.world.user.request_json("GET", path))["items"]
        ]
        live = (each for each in found if "deletionTimestamp" not in each)
        pod = min(each["name"] for each in live if each["labels"]["ray.io/node-type"] == of)
        path = f"{path}/{pod}/eviction"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        try:
            await self.world.user.request_json("POST", path, body=body)
        except StatusError as error:
            return error.status.code
        return 201

    async def create_budget(self, name: str, **selector: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}}
        path = DISRUPTION_BUDGETS.path(self.world.namespace)
        await self.world.user.request_json("POST", path, body=body)

    async def told(self) -> str:
        return (await self.condition("ChildrenAsSpecified")).get("message", "")


@asynccontextmanager
async def inhabited(**budgets: Any) -> AsyncIterator[Budgets]:
    """A cluster that a driver uses, with these budgets."""
    async with embedded_world() as world:
        seen = Budgets(world)
        seen.start_operator()
        await seen.create(disruptionBudgets=budgets)
        seen.connect()
        yield seen


async def test_of_workers_the_given_share_may_go_and_the_number_follows_the_group():
    async with inhabited(workersMaxUnavailablePercent=50) as seen:
        await seen.have(HEAD, WORKERS)
        assert (await seen.budgets())[WORKERS]["minAvailable"] == 1
        assert await seen.evict("worker") == 201
        assert await seen.evict("worker") == 429
        await seen.world.scale(5)

        async def is_computed_anew() -> bool:
            return (await seen.budgets())[WORKERS]["minAvailable"] == 2  # of 5, 3 may go

        await seen.world.eventually(is_computed_anew)


async def test_while_a_deleted_cluster_is_held_by_a_finalizer_nothing_hinders_an_eviction():
    async with inhabited() as seen:
        await seen.have(HEAD)
        user, namespace = seen.world.user, seen.world.namespace
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await user.merge_patch(RAYCLUSTERS, namespace, "example", held)
        await user.delete(RAYCLUSTERS, namespace, "example")
        await seen.have()
        await user.merge_patch(
            RAYCLUSTERS, namespace, "example", {"metadata": {"finalizers": None}}
        )


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"ray.io/cluster": "example"}},
        {"matchExpressions": [{"key": "ray.io/is-ray-node", "operator": "Exists"}]},
        {},
    ],
    ids=["by-name", "by-another-label", "all-pods"],
)
async def test_a_budget_of_the_users_for_the_same_pods_is_told(selector: dict[str, Any]):
    async with inhabited(workersMaxUnavailablePercent=50) as seen:
        await seen.have(HEAD, WORKERS)
        await seen.world.settle(630)  # nothing else enqueues the cluster any more
        await seen.create_budget("mine", **selector)
        by_name = "ray.io/cluster" in selector.get("matchLabels", {})
        await seen.have("mine", seconds=2 if by_name else 65)
        assert await seen.evict("head") == 201, "their number counts: 1 of 3"
        assert "PodDisruptionBudget mine selects the same pods" in await seen.told()
        assert (await seen.events()).count("FailedToCreatePodDisruptionBudget") == 2
        await seen.world.user.delete(DISRUPTION_BUDGETS, seen.world.namespace, "mine")
        await seen.world.settle(60)
        seen.connect()
        await seen.have(HEAD, WORKERS, seconds=120)
        assert not await seen.told()


async def test_budgets_of_others_for_other_pods_change_nothing():
    async with inhabited() as seen:
        await seen.create_budget("theirs", matchLabels={"app": "else"})
        await seen.create_budget(
            "workers", matchLabels={"ray.io/cluster": "example", "ray.io/node-type": "worker"}
        )
        await seen.have(HEAD, "theirs", "workers")
        assert not await seen.told()


@pytest.mark.parametrize("verb", ["list", "create"])
async def test_without_the_right_the_cluster_runs_and_says_so_until_it_is_granted(verb: str):
    async with embedded_world() as world:
        assert world.server is not None
        withheld = {verb}

        def allows(asked: Attributes) -> bool:
            is_ours = asked.user_agent == OPERATOR
            return not (
                is_ours and asked.resource == DISRUPTION_BUDGETS.plural and asked.verb in withheld
            )

        world.server.audit.authorizer = allows
        seen = Budgets(world)
        seen.start_operator()
        await seen.create(disruptionBudgets={})
        seen.connect()
        await world.settle(60)
        status = (await world.cluster()).status
        told = json.dumps(status["conditions"])
        assert "poddisruptionbudgets.policy" in told
        assert await world.is_ready()
        withheld.clear()
        await seen.have(HEAD, seconds=400)


async def test_an_idle_cluster_loses_its_budget_long_before_it_ends():
    async with embedded_world() as world:
        seen = Budgets(world)
        seen.start_operator()
        await seen.create(disruptionBudgets={}, **options())
        seen.connect()
        await seen.have(HEAD)
        seen.disconnect()
        await seen.have()
        await world.eventually(seen.is_suspended, seconds=700)


async def test_the_head_of_a_rayjob_is_protected_while_its_job_runs_and_not_afterwards():
    async with embedded_world() as world:
        rays = Rays(world)
        await rays.open()
        actors = DashboardActors(
            rays.ray.connect, clock=world.loop, wall=world.wall, rng=random.Random(1)
        )
        of_clusters = actors.for_controller(RayClusterKind.name)
        of_jobs = actors.for_controller(RayJobKind.name)
        world.start_operator(
            kinds=[
                RayClusterKind(dashboards=of_clusters, external_source=of_clusters),
                RayJobKind(rays.settings, of_jobs, of_jobs),
            ]
        )
        body = Rays.manifest()
        body["spec"]["rayClusterSpec"]["disruptionBudgets"] = {}
        rays.ray.course = lambda _body: Course(running=300)
        await world.user.create(RAYJOBS, world.namespace, body)
        await rays.reaches("Running")
        (name,) = await rays.clusters()
        seen = Budgets(world)
        await seen.have(f"{name}-head")
        await rays.reaches("Complete", seconds=400)
        await seen.have()
