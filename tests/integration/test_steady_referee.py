"""The referee of RayServices that lose no replica sees what must never be."""

from __future__ import annotations

from typing import Any

import pytest

from controller.devcluster.apiserver.store import Stored, StoredEvent
from tests.integration.steady_referee import SteadyReferee

Json = dict[str, Any]
OPTIONS = {"maxSurgePercent": 50, "stepSizePercent": 50}


def service(active: tuple[int, int], pending: tuple[int, int]) -> Json:
    """A RayService in an upgrade, with capacity and weight of its clusters."""
    roles = {"activeServiceStatus": ("a", *active), "pendingServiceStatus": ("b", *pending)}
    return {
        "metadata": {"name": "svc", "uid": "u", "generation": 2},
        "spec": {"upgradeStrategy": {"clusterUpgradeOptions": OPTIONS}},
        "status": {
            role: {"rayClusterName": name, "targetCapacity": capacity, "trafficRoutedPercent": each}
            for role, (name, capacity, each) in roles.items()
        },
    }


def violations(*states: Json, ready: float = 100.0) -> list[str]:
    """What the referee says when a RayService goes through these states."""
    referee = SteadyReferee(lambda _cluster: ready)
    before: Stored | None = None
    for revision, state in enumerate(states):
        now = Stored(state, revision)
        sort: Any = "MODIFIED" if before else "ADDED"
        referee(StoredEvent(sort, "rayservices.ray.io", "default/svc", revision, now, before))
        before = now
    return referee.violations


BEGUN = service((100, 100), (50, 0))
MOVED = service((100, 50), (50, 50))


@pytest.mark.parametrize("ready", [50.0, 100.0])
def test_a_weight_may_grow_to_what_is_ready(ready: float):
    assert violations(BEGUN, MOVED, ready=ready) == []


def test_i2_a_weight_beyond_the_capacity():
    assert violations(BEGUN, service((100, 40), (50, 60))) == [
        "I2: 60 % of the requests for b with 50 %"
    ]


def test_i3_a_weight_beyond_what_is_ready():
    assert violations(BEGUN, MOVED, ready=40.0) == ["I3: 50 % for b, where 40.0 % are ready"]


def test_i8_more_moves_than_the_way_is_long():
    there_and_back = [BEGUN, MOVED] * 4
    assert violations(*there_and_back[:7]) == []
    assert violations(*there_and_back) == ["I8: more than 6 moves in one direction"]
