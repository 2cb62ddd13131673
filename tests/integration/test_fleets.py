"""RayClusterFleets on an API server: each index keeps a ready copy, none has one too many."""

from __future__ import annotations

from typing import Any

import pytest

from controller.command.kinds import KindSettings, kinds_of
from controller.command.planning.planner import Planner
from controller.ray.api import FeatureGates
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from tests.integration.definitions import kuberays_definition, put_in_place
from tests.integration.fleets import (
    NEW,
    OLD,
    FleetReferee,
    Fleets,
    fleet_manifest,
)
from tests.integration.harness import World
from tests.ray.test_permissions import chart_verbs

pytestmark = pytest.mark.slow

embedded_only = pytest.mark.embedded_only


def watched(world: World) -> FleetReferee:
    referee = FleetReferee()
    if world.server is not None:
        world.server.on_write.append(referee)
    return referee


async def uids(fleets: Fleets) -> set[str]:
    return {each["uid"] for each in (await fleets.clusters()).values()}


async def test_an_upgrade_replaces_each_copy_once_and_every_index_stays_ready(fleets: Fleets):
    referee = watched(fleets.world)
    fleets.start_operator()
    await fleets.create()
    await fleets.completes(OLD)
    old = await uids(fleets)
    await fleets.use(NEW)
    await fleets.completes(NEW)
    assert not old & await uids(fleets)
    status = (await fleets.fleet()).status
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (3, 3, 3)
    assert [each["index"] for each in status["clusters"]] == [0, 1, 2]
    if fleets.world.server is not None:
        assert referee.violations == []
        assert (referee.created, referee.peak) == (6, 4)
    reasons = [reason for reason, _ in await events(fleets)]
    assert reasons.count("CreatedRayCluster") + reasons.count("DeletedRayCluster") >= 2
    assert {"UpgradeStarted", "UpgradeComplete"} <= set(reasons)


async def events(fleets: Fleets) -> list[tuple[str, str]]:
    await fleets.world.settle(2)
    return await fleets.world.events_about("RayClusterFleet", "fleet")


async def test_a_fleet_that_is_scaled_replaces_no_copy_and_no_pod(fleets: Fleets):
    fleets.start_operator()
    await fleets.create(replicas=1)
    await fleets.completes(OLD, 1)
    (first,) = await fleets.clusters()
    pods = set(fleets.world.journal.created)
    await fleets.scale(3)
    await fleets.completes(OLD, 3)
    await fleets.scale(1)
    await fleets.completes(OLD, 1)
    assert list(await fleets.clusters()) == [first]
    assert not pods & fleets.world.journal.marked


@embedded_only
async def test_with_kuberays_definition_of_clusters_each_copy_is_replaced_once(fleets: Fleets):
    theirs = kuberays_definition()
    await put_in_place(fleets.world, theirs)
    referee = watched(fleets.world)
    operator = fleets.start_operator()
    await fleets.create(replicas=2)
    await fleets.completes(OLD, 2)
    await fleets.use(NEW)
    await fleets.completes(NEW, 2)
    assert referee.violations == []
    assert referee.created == 4
    await fleets.world.settle(60)
    written = len(operator.transport.journal.writes)
    await fleets.world.settle(600)
    assert operator.transport.journal.writes[written:] == []


@embedded_only
async def test_at_rest_nothing_is_asked_and_nothing_written(fleets: Fleets):
    operator = fleets.start_operator()
    await fleets.create(replicas=2)
    await fleets.completes(OLD, 2)
    await fleets.world.settle(60)
    before = len(operator.transport.journal.entries)
    await fleets.world.settle(600)
    later = [entry.attributes for entry in operator.transport.journal.entries[before:]]
    assert [about for about in later if about.resource and about.verb != "watch"] == []


@embedded_only
async def test_requests_keep_to_what_the_chart_grants(fleets: Fleets):
    operator = fleets.start_operator()
    await fleets.create(replicas=2)
    await fleets.completes(OLD, 2)
    await fleets.use(NEW)
    await fleets.completes(NEW, 2)
    await fleets.patch(replicas=1)
    await fleets.completes(NEW, 1)
    asked = {
        (entry.attributes.verb, entry.attributes.resource, entry.attributes.subresource)
        for entry in operator.transport.journal.entries
    }
    verbs = {verb for verb, resource, _ in asked if resource == str(RAYCLUSTERFLEETS)}
    assert verbs == {"list", "watch", "patch"}
    rules = chart_verbs()
    for verb, resource, subresource in asked:
        plural, _, group = resource.partition(".")
        name = f"{plural}/{subresource}" if subresource else plural
        if resource and verb != "get":
            assert verb in rules[f"{name}.{group}" if group else name], (verb, resource)


def planner(fleets: Fleets) -> Planner:
    gates = FeatureGates({"RayClusterFleet": True})
    kinds = kinds_of(KindSettings.from_environment(gates, {}), None)
    return Planner(fleets.world.user, kinds, fleets.world.wall())


def planned(plan: Any) -> dict[tuple[str, str], int]:
    """How many objects, by action and kind."""
    found: dict[tuple[str, str], int] = {}
    for item in plan.items:
        key = item.action, item.kind
        found[key] = found.get(key, 0) + item.count
    return found


async def test_a_plan_for_an_edit_names_all_steps_of_the_upgrade(fleets: Fleets):
    fleets.start_operator()
    await fleets.create(replicas=2)
    await fleets.completes(OLD, 2)
    manifest = fleet_manifest(replicas=2, image=NEW)
    plan = await planner(fleets).for_manifest(manifest, fleets.world.namespace)
    (edit, *_) = plan.edits
    assert edit.path.startswith("spec.template.spec")
    assert plan.rollout is not None
    zero, one = await fleets.clusters()
    assert [(step.action, step.cluster) for step in plan.rollout.steps] == [
        ("create", "fleet-0-*"),
        ("delete", zero),
        ("create", "fleet-1-*"),
        ("delete", one),
    ]
    usage = plan.rollout.before, plan.rollout.peak, plan.rollout.after
    assert [each.pods for each in usage] == [4, 6, 4]
    expected = {"RayCluster": 2, "Pod": 4, "Service": 2}
    actions = ("create", "delete")
    assert planned(plan) == {(do, kind): n for kind, n in expected.items() for do in actions}
