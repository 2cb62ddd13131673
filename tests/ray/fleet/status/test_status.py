"""What a fleet tells about itself: counts, conditions, events, metrics."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from controller.ray.fleet import FleetCollector, RayClusterFleetKind
from controller.runtime.kind import CreateError
from controller.runtime.plan import Failure
from tests.ray.fleet.support import (
    LONG_AGO,
    NEW,
    NOW,
    OLD,
    cluster_spec,
    condition,
    fleet,
    member,
    plan,
    reads,
    stamp,
    told,
    with_status,
    writes,
)

SECOND = timedelta(seconds=1)
STUCK = "ProgressDeadlineExceeded"


def status(made: Any) -> dict[str, Any]:
    return dict(made.status.wanted)


def three(image: str = NEW, **more: Any) -> list[Any]:
    return [member(index, image, **more) for index in range(3)]


def test_a_complete_fleet_is_ready_and_up_to_date():
    made = plan(fleet(), *three())
    found = status(made)
    assert {key: found[key] for key in ("replicas", "readyReplicas", "updatedReplicas")} == {
        "replicas": 3,
        "readyReplicas": 3,
        "updatedReplicas": 3,
    }
    assert found["clusters"][1] == {
        "index": 1,
        "name": member(1).metadata.name,
        "updated": True,
        "ready": True,
    }
    assert condition(made, "Ready") == ("True", "AllClustersReady", "3 of 3 copies are ready")
    assert condition(made, "Upgrading") == ("False", "UpToDate", "no copy is outdated")
    assert told(made) == []
    assert made.requeue_after is None


def test_the_first_copy_that_is_not_ready_is_named_in_its_own_words():
    made = plan(fleet(), member(0), member(1, ready=False), member(2))
    cause = f"RayCluster {member(1).metadata.name} is not ready: group workers: 1 of 2 workers"
    message = f"2 of 3 copies are ready; {cause} are ready"
    assert condition(made, "Ready") == ("False", "ClustersNotReady", message)
    assert "1 of 2 workers" in status(made)["clusters"][1]["message"]


def test_a_copy_that_is_being_deleted_is_no_ready_one():
    made = plan(fleet(), member(0), member(1, terminating=True), member(2))
    assert condition(made, "Ready")[:2] == ("False", "ClustersNotReady")
    assert status(made)["readyReplicas"] == 2
    entry = status(made)["clusters"][1]
    assert (entry["ready"], entry["message"]) == (False, "it is being deleted")


def test_a_copy_that_has_said_nothing_yet_is_not_ready():
    made = plan(fleet(), member(0), msgspec.structs.replace(member(1), status={}), member(2))
    assert status(made)["clusters"][1]["message"] == "it has not reported yet"


def test_a_suspended_copy_that_is_being_deleted_is_no_suspended_one():
    suspended = fleet(template={"spec": cluster_spec(suspend=True)})
    asleep = three(of=suspended, ready=False, suspended=True)
    going = member(0, of=suspended, ready=False, suspended=True, terminating=True)
    made = plan(suspended, going, *asleep[1:])
    assert condition(made, "Ready")[2].startswith("2 of 3 copies are suspended")


def test_a_copy_that_still_runs_is_not_suspended_yet():
    suspended = fleet(template={"spec": cluster_spec(suspend=True)})
    made = plan(suspended, *three(of=suspended))
    assert "is not suspended yet" in condition(made, "Ready")[2]


def test_an_upgrade_is_told_from_its_beginning_to_its_end():
    obj = fleet(NEW)
    made = plan(obj, *three(OLD))
    assert told(made) == ["UpgradeStarted"]
    assert condition(made, "Ready")[0] == "True"
    assert condition(made, "Upgrading") == (
        "True",
        "Rolling",
        "0 of 3 copies are up to date, 3 outdated ones are left",
    )
    obj = with_status(obj, made)
    coming = member(0, NEW, ready=False, since=NOW)
    made = plan(obj, *three(OLD), coming)
    assert told(made) == []
    assert f"RayCluster {coming.metadata.name} is not ready" in condition(made, "Upgrading")[2]
    obj = with_status(obj, made)
    made = plan(obj, *three(NEW))
    assert told(made) == ["UpgradeComplete"]
    assert told(plan(with_status(obj, made), *three(NEW))) == []


def test_the_end_is_told_when_the_last_replacement_is_ready():
    obj = fleet(NEW, maxUnavailable=1)
    obj = with_status(obj, plan(obj, *three(OLD)))
    made = plan(obj, member(0), member(1), member(2, ready=False))
    assert condition(made, "Upgrading")[:2] == ("True", "Rolling")


def test_a_paused_upgrade_says_so_and_a_resumed_one_has_all_of_its_time_again():
    obj = with_status(fleet(NEW), plan(fleet(NEW), *three(OLD)))
    paused = fleet(NEW, paused=True, status=obj.status)
    made = plan(paused, *three(OLD))
    assert told(made) == ["UpgradePaused"]
    assert condition(made, "Upgrading")[:2] == ("Unknown", "Paused")
    assert made.requeue_after is None
    later = NOW + timedelta(hours=2)
    obj = with_status(paused, made)
    resumed = fleet(NEW, status=obj.status)
    made = plan(resumed, *three(OLD), now=later)
    assert told(made) == ["UpgradeResumed"]
    assert condition(made, "Upgrading")[:2] == ("True", "Rolling")
    assert made.requeue_after == 600


def test_an_upgrade_without_progress_is_stuck_and_names_the_first_cause():
    obj = with_status(fleet(NEW), plan(fleet(NEW), *three(OLD), now=LONG_AGO))
    coming = member(0, NEW, ready=False, since=LONG_AGO + 100 * SECOND)
    there = (*three(OLD, since=LONG_AGO), coming)
    made = plan(obj, *there, now=LONG_AGO + 699 * SECOND)
    assert condition(made, "Upgrading")[1] == "Rolling"
    assert made.requeue_after == 1
    obj = with_status(obj, made)
    made = plan(obj, *there, now=LONG_AGO + 700 * SECOND)
    status_, reason, message = condition(made, "Upgrading")
    assert (status_, reason) == ("True", "ProgressDeadlineExceeded")
    assert "1 of 2 workers are ready" in message
    assert told(made) == ["UpgradeStuck"]
    assert made.requeue_after is None
    assert told(plan(with_status(obj, made), *there, now=NOW)) == []


def test_a_jump_of_the_clock_back_puts_no_deadline_off():
    obj = with_status(fleet(NEW), plan(fleet(NEW), *three(OLD), now=LONG_AGO))
    coming = member(0, NEW, ready=False, since=LONG_AGO)
    now = LONG_AGO - timedelta(hours=5)
    there = (*three(OLD, since=LONG_AGO), coming)
    made = plan(obj, *there, now=now, clock_steady_since=now - 100 * SECOND)
    assert made.requeue_after == 500
    made = plan(obj, *there, now=now, clock_steady_since=now - 600 * SECOND)
    assert condition(made, "Upgrading")[1] == STUCK


def test_a_stuck_upgrade_goes_on_when_its_copy_becomes_ready():
    obj = with_status(fleet(NEW), plan(fleet(NEW), *three(OLD), now=LONG_AGO))
    coming = member(0, NEW, ready=False, since=LONG_AGO)
    obj = with_status(obj, plan(obj, *three(OLD), coming))
    made = plan(obj, *three(OLD), member(0, NEW, since=NOW))
    assert condition(made, "Upgrading")[1] == "Rolling"
    assert told(made) == []


@pytest.mark.parametrize(("ready", "reason"), [(True, "Rolling"), (False, STUCK)])
def test_a_copy_makes_progress_when_it_becomes_ready_and_not_when_it_ends_to_be(
    ready: bool, reason: str
):
    obj = with_status(fleet(NEW), plan(fleet(NEW), *three(OLD), now=LONG_AGO))
    change = {"type": "Ready", "status": str(ready), "lastTransitionTime": stamp(NOW)}
    coming = msgspec.structs.replace(member(0), status={"conditions": [change]})
    made = plan(obj, *three(OLD), coming)
    assert condition(made, "Upgrading")[1] == reason


def test_suspended_copies_are_not_ready_and_nothing_is_wrong_with_them():
    suspended = fleet(template={"spec": cluster_spec(suspend=True)})
    asleep = three(of=suspended, ready=False, suspended=True)
    made = plan(suspended, *asleep)
    assert condition(made, "Ready") == ("False", "Suspended", "3 of 3 copies are suspended")
    assert condition(made, "Upgrading")[0] == "False"
    assert writes(made) == []


def test_a_refused_write_is_the_first_cause():
    kind = RayClusterFleetKind()
    seen = kind.observe("default/fleet", reads(fleet()))
    assert seen is not None
    made = kind.plan(seen, NOW)
    (create, *_) = writes(made)
    failure = Failure(create, "Forbidden", "exceeded quota: count, requested: rayclusters=1")
    patch = kind.status_after(seen, made, (failure,), NOW)
    assert patch is not None
    (ready,) = [each for each in patch.wanted["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "QuotaExceeded")
    assert "ask for a larger quota" in ready["message"]
    assert [event.reason for event in patch.events] == ["FailedToCreateRayCluster"]
    kept = reads(fleet())
    kept.refused[f"RayCluster/{create.target.key}"] = CreateError(failure.reason, failure.message)
    assert condition(kind.plan(kind.observe("default/fleet", kept), NOW), "Ready") == (
        "False",
        ready["reason"],
        ready["message"],
    ), "it is told in the same words as long as it lasts"


def test_a_message_that_changes_is_not_urgent():
    obj = with_status(fleet(), plan(fleet(), member(0, ready=False), member(1), member(2)))
    made = plan(obj, member(0, ready=False, message="other words"), member(1), member(2))
    assert made.status is not None
    assert not made.status.urgent
    assert made.status.settles > 0, "those of other copies follow soon"
    made = plan(obj, *three())
    assert made.status is not None
    assert made.status.urgent
    assert made.status.settles == 0


@pytest.mark.parametrize("paused", [False, True])
def test_metrics_have_the_counts_and_the_state_of_an_upgrade(paused: bool):
    obj = fleet(NEW, paused=paused)
    obj = with_status(obj, plan(obj, *three(OLD)))
    registry = CollectorRegistry()
    registry.register(FleetCollector(lambda: [obj]))
    text = generate_latest(registry).decode()
    identity = 'name="fleet",namespace="default",uid="uid-of-fleet"'
    reason = "Paused" if paused else "Rolling"
    upgrade = f'name="fleet",namespace="default",reason="{reason}",uid="uid-of-fleet"'
    for line in (
        f"manta_fleet_desired_replicas{{{identity}}} 3.0",
        f"manta_fleet_replicas{{{identity}}} 3.0",
        f"manta_fleet_ready_replicas{{{identity}}} 3.0",
        f"manta_fleet_updated_replicas{{{identity}}} 0.0",
        f"manta_fleet_upgrade{{{upgrade}}} 1.0",
    ):
        assert line in text.splitlines()


def test_a_fleet_that_is_up_to_date_has_no_upgrade_in_its_metrics():
    obj = with_status(fleet(), plan(fleet(), *three()))
    registry = CollectorRegistry()
    registry.register(FleetCollector(lambda: [obj]))
    assert "manta_fleet_upgrade{" not in generate_latest(registry).decode()


def test_the_manual_describes_every_metric():
    registry = CollectorRegistry()
    registry.register(FleetCollector(list))
    manual = (Path(__file__).parents[4] / "docs" / "fleet.md").read_text()
    for family in registry.collect():
        assert f"`{family.name}`" in manual
