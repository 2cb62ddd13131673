"""`manta plan` says what evictions, drained nodes and disuse do later, and it happens."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.kinds import KindSettings, kinds_to_plan
from controller.command.planning.net_changes import ObjectPlan
from controller.command.planning.plan import text_of
from controller.command.planning.planner import Planner
from controller.kube.resources import DISRUPTION_BUDGETS
from controller.ray.api import RAYCLUSTERS, RAYJOBS, labels
from tests.integration.harness import World, example_cluster
from tests.integration.rays import job_manifest

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

BUDGETS = {"workersMaxUnavailablePercent": 50}


async def planned(world: World, manifest: dict[str, Any]) -> ObjectPlan:
    planner = Planner(world.user, kinds_to_plan(KindSettings()), world.wall())
    return await planner.for_manifest(manifest, world.namespace)


def cluster(**spec: Any) -> dict[str, Any]:
    """A cluster with two workers and these options."""
    manifest = example_cluster()
    manifest["spec"] |= spec
    return manifest


async def test_without_an_option_about_it_nothing_is_said(world: World):
    assert (await planned(world, cluster())).outlook == ()


async def test_evictions_are_those_that_the_budgets_leave(world: World):
    plan = await planned(world, cluster(disruptionBudgets=BUDGETS))
    (said,) = plan.outlook
    assert said == (
        "evictions while something runs on the cluster: head refused, group workers at most 1 of "
        "2 at a time"
    )
    lines = [text for _, text in text_of(plan)]
    assert f"  later: {said}" in lines
    (open_,) = (await planned(world, cluster(disruptionBudgets={}))).outlook
    assert open_.endswith("head refused, group workers allowed")


async def test_a_budget_of_the_user_that_keeps_ours_away_is_named(world: World):
    world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    theirs = {
        "metadata": {"name": "theirs"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {labels.NODE_TYPE: "head"}}},
    }
    await world.user.create(DISRUPTION_BUDGETS, world.namespace, theirs)
    manifest = cluster(disruptionBudgets={})
    (said,) = (await planned(world, manifest)).outlook
    assert "head allowed" in said
    assert "PodDisruptionBudget theirs selects the same pods" in said


async def test_replacements_are_created_at_once_as_far_as_the_group_may_surge(world: World):
    options = {"terminationGracePeriodSeconds": 120}
    (said,) = (await planned(world, cluster(gracefulTerminationOptions=options))).outlook
    assert said == (
        "a worker of group workers that is evicted or drained has 120 s to finish; its replacement "
        "is created at once, for at most 1 at a time"
    )
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    manifest = cluster(gracefulTerminationOptions=options, upgradeStrategy=rolling)
    (said,) = (await planned(world, manifest)).outlook
    assert said.endswith("its replacement is created when it is gone")


@pytest.mark.parametrize(
    ("policy", "end"),
    [
        ("Suspend", "it is suspended"),
        ("Delete", "it is deleted"),
        ("ScaleToMinimum", "its groups are scaled to minReplicas"),
    ],
)
async def test_an_unused_cluster_ends_by_its_policy_after_its_timeout(
    world: World, policy: str, end: str
):
    options = {"timeoutSeconds": 3600, "policy": policy}
    plan = await planned(world, cluster(idleTerminationOptions=options))
    assert plan.outlook == (f"{end} when nobody has used it for 3600 s",)
    suspended = await planned(world, cluster(idleTerminationOptions=options, suspend=True))
    assert suspended.outlook == ()


async def test_of_a_cluster_that_is_unused_now_the_time_is_named_also_with_another_timeout(
    world: World,
):
    idle = {
        "type": "Idle",
        "status": "True",
        "reason": "Unused",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await world.user.create(
        RAYCLUSTERS, world.namespace, cluster(idleTerminationOptions={"timeoutSeconds": 60})
    )
    await world.user.merge_patch(
        RAYCLUSTERS,
        world.namespace,
        "example",
        {"status": {"conditions": [idle]}},
        subresource="status",
    )
    manifest = cluster(idleTerminationOptions={"timeoutSeconds": 10**9})
    (said,) = (await planned(world, manifest)).outlook
    assert said == (
        "nobody has used it since 2026-01-01T00:00:00Z; it is suspended at 2057-09-09T01:46:40Z "
        "unless it is used before"
    )


async def test_of_a_job_it_says_whether_an_attempt_counts_and_what_holds_for_its_cluster(
    world: World,
):
    manifest = job_manifest(backoffLimit=1, disruptionBackoffLimit=3)
    manifest["spec"]["rayClusterSpec"]["disruptionBudgets"] = {}
    plan = await planned(world, manifest)
    attempt, evictions = plan.outlook
    assert attempt == (
        "a head that is taken away ends the attempt, which does not count against backoffLimit 1: "
        "3 of 3 that spec.disruptionBackoffLimit allows are left"
    )
    assert evictions.startswith("evictions while something runs on the cluster: head refused")
    world.start_operator()
    name = manifest["metadata"]["name"]
    await world.user.create(RAYJOBS, world.namespace, manifest)
    await world.user.merge_patch(
        RAYJOBS,
        world.namespace,
        name,
        {"status": {"failed": 3, "disrupted": 3}},
        subresource="status",
    )
    attempt, _ = (await planned(world, manifest)).outlook
    assert "which counts against backoffLimit 1: 0 of 3" in attempt
