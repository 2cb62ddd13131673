"""Whose turn it is stands in a condition, which is stored before any pod goes."""

from __future__ import annotations

from typing import Any

from controller.apimachinery.conditions import find_condition
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.plan import plan_cluster
from controller.runtime.plan import Delete
from tests.ray.cluster.support import NOW
from tests.ray.cluster.upgrade.rolling.scenes import (
    new,
    observed,
    old,
    rolling,
    the_head,
    with_begun,
)

UNDRAINED: dict[str, Any] = {"maxSurge": 0, "maxUnavailable": 1, "drainTimeoutSeconds": 0}


def scene(*groups: int, **settings: Any) -> ClusterObservation:
    raw = rolling(*groups, **(UNDRAINED | settings))
    pods = (old(f"p{n}", group=each["groupName"])
            for n, each in enumerate(raw["spec"]["workerGroupSpecs"]))  # fmt: skip
    return observed(raw, the_head(raw), *pods)


def recorded(seen: ClusterObservation) -> str:
    """The names that the status records after the present plan."""
    status = plan_cluster(seen, NOW).status
    assert status is not None
    found = find_condition(status.wanted["conditions"], "GroupsUpgrading") or {}
    assert found.get("status") in {"True", None}
    return found.get("message", "")


def deletes(seen: ClusterObservation) -> bool:
    stages = plan_cluster(seen, NOW).stages
    return any(isinstance(write, Delete) for stage in stages for write in stage)


def test_a_turn_is_recorded_before_the_first_pod_goes():
    assert recorded(scene(1)) == "workers"
    assert not deletes(scene(1))
    assert recorded(with_begun(scene(1), "workers")) == "workers"
    assert deletes(with_begun(scene(1), "workers"))


def test_the_turns_of_several_groups_are_recorded_together():
    both = scene(1, 1, maxParallelGroups=2)
    assert recorded(both) == "workers, workers-1"
    assert recorded(with_begun(both, "workers")) == "workers, workers-1"


def test_a_turn_that_has_ended_is_recorded_no_longer():
    assert recorded(with_begun(scene(1, 1), "workers")) == "workers"
    raw = rolling(1, 1, **UNDRAINED)
    pods = the_head(raw), new(raw, "a"), old("b", group="workers-1")
    assert recorded(with_begun(observed(raw, *pods), "workers")) == "workers-1"
    ready = observed(raw, the_head(raw), new(raw, "a"), new(raw, "b", group=1))
    assert not recorded(with_begun(ready, "workers"))
