"""Whose turn it is stands in a condition, which is stored before any pod goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controller.apimachinery.conditions import ConditionSet, find_condition
from controller.ray.cluster.plan import plan_cluster
from controller.ray.cluster.upgrade.rolling.turns import record_turns, recorded_turns, set_turns
from controller.ray.settings import ClusterSettings
from controller.runtime.plan import Delete, MergePatch
from tests.ray.cluster.support import NOW, cluster, with_status
from tests.ray.cluster.upgrade.rolling.scenes import (
    new,
    observed,
    observed_object,
    old,
    rolled_out,
    rolling,
    the_head,
    with_begun,
)

if TYPE_CHECKING:
    from controller.ray.cluster.observation import ClusterObservation

SETTINGS = ClusterSettings()
UNDRAINED: dict[str, Any] = {"maxSurge": 0, "maxUnavailable": 1, "drainTimeoutSeconds": 0}


def scene(*groups: int, **settings: Any) -> ClusterObservation:
    raw = rolling(*groups, **(UNDRAINED | settings))
    pods = (old(f"p{n}", group=each["groupName"])
            for n, each in enumerate(raw["spec"]["workerGroupSpecs"]))  # fmt: skip
    return observed(raw, the_head(raw), *pods)


def recorded(write: MergePatch | None) -> dict[str, Any]:
    assert write is not None
    condition = find_condition(write.patch["status"]["conditions"], "GroupsUpgrading")
    assert condition is not None
    return dict(condition)


def test_a_turn_is_recorded_in_the_status_before_the_first_pod_goes():
    plan = plan_cluster(scene(1), SETTINGS, NOW)
    assert isinstance(plan.commit, MergePatch)
    assert plan.commit.subresource == "status"
    assert plan.commit.resource_version
    assert recorded(plan.commit)["status"] == "True"
    assert recorded(plan.commit)["message"] == "workers"
    assert any(isinstance(write, Delete) for stage in plan.stages for write in stage)


def test_a_turn_is_recorded_once():
    assert plan_cluster(with_begun(scene(1), "workers"), SETTINGS, NOW).commit is None
    assert record_turns(scene(1), NOW) is None, "nothing was decided"


def test_the_turns_of_several_groups_are_recorded_together():
    both = record_turns(rolled_out(scene(1, 1, maxParallelGroups=2)), NOW)
    assert recorded(both)["message"] == "workers, workers-1"
    second = record_turns(rolled_out(with_begun(scene(1, 1, maxParallelGroups=2), "workers")), NOW)
    assert recorded(second)["message"] == "workers, workers-1"


@pytest.mark.parametrize(
    "condition",
    [
        {"status": "False", "message": "workers"},
        {"status": "True"},
        {"status": "True", "message": ""},
        {"status": "True", "message": {"a": 1}},
        {"status": ["True"], "message": "workers"},
    ],
    ids=str,
)
def test_an_odd_record_names_no_group(condition: dict[str, Any]):
    status = {"conditions": [{"type": "GroupsUpgrading"} | condition]}
    raw = rolling(1, 1, **UNDRAINED)
    seen = observed_object(with_status(cluster(raw), status), the_head(raw))
    assert not recorded_turns(seen) & {"workers", "workers-1"}


def test_the_record_goes_when_all_turns_have_ended():
    conditions = ConditionSet((), 1, NOW)
    set_turns(conditions, ["workers"])
    set_turns(conditions, ())
    assert conditions.as_list() == []


def test_the_status_after_the_plan_says_what_the_record_said():
    seen = with_begun(scene(1, 1), "workers")
    plan = plan_cluster(seen, SETTINGS, NOW)
    assert plan.status is not None
    found = find_condition(plan.status.wanted["conditions"], "GroupsUpgrading")
    assert found is not None
    assert found["message"] == "workers"
    raw = rolling(1, 1, **UNDRAINED)
    ready = observed(raw, the_head(raw), new(raw, "a"), new(raw, "b", group=1))
    plan = plan_cluster(with_begun(ready, "workers"), SETTINGS, NOW)
    assert plan.status is not None
    types = {condition["type"] for condition in plan.status.wanted["conditions"]}
    assert "GroupsUpgrading" not in types
