"""Connections that clients keep are closed before a cluster loses what serves them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import find_condition, rfc3339
from controller.ray.api import RayCluster
from controller.ray.api.labels import DELETE_AFTER
from controller.ray.dashboard.commands import (
    CommandDone,
    CommandExpired,
    CommandOutcome,
    CommandRefused,
)
from controller.ray.dashboard.own_job import CloseConnections
from controller.runtime.plan import Delete, MergePatch, Plan
from tests.ray.cluster.support import NOW
from tests.ray.service.scenes import ACTIVE, NEW, OLD, PENDING, STEPWISE, Scene, edition

CLOSED = CommandDone()
FORMER = "svc-bbbbb"


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def replaced(due: datetime, outcome: CommandOutcome | None = None) -> Scene:
    """A service that another cluster serves; the one before is to be deleted at `due`."""
    scene = Scene(edition(NEW))
    scene.has(ACTIVE, scene.wanted)
    scene.has(PENDING, edition(OLD))
    del scene.status[PENDING]
    annotated(scene, DELETE_AFTER, rfc3339(due))
    scene.ends_with(outcome)
    return scene


def annotated(scene: Scene, name: str, value: str) -> None:
    body: dict[str, Any] = msgspec.to_builtins(scene.clusters[PENDING])
    body["metadata"]["annotations"][name] = value
    scene.clusters[PENDING] = msgspec.convert(body, RayCluster)


def deleted(plan: Plan) -> list[str]:
    writes = [*plan.independent, *(write for stage in plan.stages for write in stage)]
    return [each.target.name for each in writes if isinstance(each, Delete)]


def closings(plan: Plan) -> list[CloseConnections]:
    """The commands, each to a head whose answer the service awaits."""
    found = [each for each in plan.commands if isinstance(each.command, CloseConnections)]
    heads = {each.head for each in plan.subscriptions}
    assert {each.head for each in found} <= heads, "its result would be lost"
    assert {each.head.cluster_uid for each in found} <= {f"uid-of-{FORMER}", "uid-of-svc-aaaaa"}
    return [each.command for each in found]


def message(plan: Plan, kind: str = "UpgradeInProgress") -> str:
    assert plan.status is not None
    condition = find_condition(plan.status.wanted["conditions"], kind)
    assert condition is not None
    return condition["message"]


def test_a_replaced_cluster_closes_its_connections_at_once_and_says_so():
    plan = replaced(NOW + seconds(40)).plan()
    (command,) = closings(plan)
    assert command.due == NOW + seconds(40)
    assert command.until < command.deadline == NOW + seconds(70)
    assert command.ends, "so that gRPC servers are stopped too"
    assert message(plan) == (
        f"the deletion of cluster {FORMER} waits for its Serve proxies to close their connections, "
        f"at least until {rfc3339(command.due)}"
    )


def test_its_deletion_waits_for_connections_that_are_open_longer():
    plan = replaced(NOW - seconds(10)).plan()
    assert not deleted(plan)
    assert message(plan).endswith(f"at most until {rfc3339(NOW + seconds(20))}")
    assert plan.requeue_after is not None
    assert plan.requeue_after <= 20


@pytest.mark.parametrize("late", [0, 29])
def test_it_is_deleted_when_none_is_left_and_not_before_its_time(late: float):
    assert deleted(replaced(NOW - seconds(late), CLOSED).plan()) == [FORMER]
    early = replaced(NOW + seconds(1), CLOSED).plan()
    assert not deleted(early)
    assert not closings(early)
    assert "has no connection left and is deleted at" in message(early)


def test_after_half_a_minute_connections_are_cut():
    plan = replaced(NOW - seconds(30)).plan()
    assert deleted(plan) == [FORMER]
    assert not closings(plan)


@pytest.mark.parametrize("outcome", [CommandRefused("no such actor"), CommandExpired("silence")])
def test_proxies_that_cannot_close_them_delay_nothing_and_the_reason_is_told(
    outcome: CommandRefused | CommandExpired,
):
    assert deleted(replaced(NOW, outcome).plan()) == [FORMER]
    assert message(replaced(NOW + seconds(9), outcome).plan()).endswith(
        f"because its Serve proxies could not close them: {outcome.message}"
    )


def test_without_a_ready_head_nothing_could_close_them():
    scene = replaced(NOW)
    scene.unready.add(FORMER)
    assert deleted(scene.plan()) == [FORMER]


def test_a_cluster_that_a_service_still_selects_keeps_its_connections():
    scene = replaced(NOW - seconds(10))
    scene.selects(FORMER)
    plan = scene.plan()
    assert not closings(plan)
    assert not deleted(plan)


def suspending(since: datetime, outcome: CommandOutcome | None = None) -> Scene:
    scene = Scene(edition(NEW, suspend=True), "Suspending")
    scene.has(PENDING, scene.wanted)
    del scene.status[PENDING]
    scene.status["conditions"][0]["lastTransitionTime"] = rfc3339(since)
    scene.selects(FORMER)
    scene.ends_with(outcome)
    return scene


def test_a_suspension_deletes_the_services_first_and_then_waits_for_connections():
    plan = suspending(NOW).plan()
    assert FORMER not in deleted(plan)
    assert "svc-serve-svc" in deleted(plan)
    (command,) = closings(plan)
    assert command.due == NOW
    assert f"the deletion of cluster {FORMER} waits" in message(plan, "Suspending")
    assert FORMER in deleted(suspending(NOW, CLOSED).plan())
    assert FORMER in deleted(suspending(NOW - seconds(30)).plan())


def test_a_clock_that_has_gone_back_delays_no_suspension():
    assert FORMER in deleted(suspending(NOW + timedelta(hours=1)).plan())


def stepwise(*conditions: str, selects: str, outcome: CommandOutcome | None = None) -> Scene:
    """An incremental upgrade in which one cluster has lost its last requests five seconds ago."""
    rolls_back = bool(conditions)
    scene = Scene(edition(OLD if rolls_back else NEW, upgradeStrategy=STEPWISE), *conditions)
    weight = 0 if rolls_back else 100
    moved = {"lastTrafficMigratedTime": rfc3339(NOW - seconds(5))}
    scene.has(
        ACTIVE,
        edition(OLD, upgradeStrategy=STEPWISE),
        targetCapacity=100 if rolls_back else 20,
        trafficRoutedPercent=100 - weight,
        **moved,
    )
    scene.has(
        PENDING,
        edition(NEW, upgradeStrategy=STEPWISE),
        targetCapacity=20 if rolls_back else 100,
        trafficRoutedPercent=weight,
        **moved,
    )
    scene.selects(selects)
    scene.ends_with(outcome)
    return scene


def capacities(plan: Plan) -> dict[str, Any]:
    if not isinstance(plan.commit, MergePatch):
        return {}
    status = plan.commit.patch["status"]
    return {role: status[role] for role in (ACTIVE, PENDING) if role in status}


@pytest.mark.parametrize(
    ("conditions", "loser", "winner", "name"),
    [
        ((), ACTIVE, "svc-bbbbb", "svc-aaaaa"),
        (("RollbackInProgress",), PENDING, "svc-aaaaa", "svc-bbbbb"),
    ],
    ids=["forward", "rolling back"],
)
def test_capacity_goes_after_the_connections(
    conditions: tuple[str, ...], loser: str, winner: str, name: str
):
    plan = stepwise(*conditions, selects=winner).plan()
    assert capacities(plan) == {}
    (command,) = closings(plan)
    assert not command.ends, "an edit may give requests back to this cluster"
    assert command.due == NOW + seconds(25)
    assert "to close their connections" in message(plan)
    closed = stepwise(*conditions, selects=winner, outcome=CLOSED).plan()
    assert capacities(closed) == {loser: {"targetCapacity": 0}}
    selected = stepwise(*conditions, selects=name).plan()
    assert capacities(selected) == {}, "the services come first"
    assert not closings(selected)
