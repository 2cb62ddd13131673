"""How long a RayService may take until it serves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.ray.service.clusters import seconds_to_timeout
from controller.ray.service.observation import PENDING, ServiceObservation
from controller.runtime.plan import Event
from tests.ray.cluster.support import NOW
from tests.ray.service.scenes import NEW, OLD, Scene, edition


def initializing(timeout: str, since: timedelta) -> ServiceObservation:
    """A RayService that began so long before now."""
    wanted = edition(OLD)
    wanted["metadata"]["annotations"] = {"ray.io/initializing-timeout": timeout}
    scene = Scene(wanted)
    ready = {"type": "Ready", "status": "False", "reason": "Initializing"}
    scene.status["conditions"] = [ready | {"lastTransitionTime": rfc3339(NOW - since)}]
    return scene.observe()


@pytest.mark.parametrize(("timeout", "left"), [("60", 20.0), ("1m", 20.0), ("9" * 13, 1e13)])
def test_the_time_left_counts_from_its_beginning_however_long_it_is(timeout: str, left: float):
    seen = initializing(timeout, timedelta(seconds=40))
    assert seconds_to_timeout(seen) == pytest.approx(left, rel=1e-9)


def test_a_beginning_that_a_jump_of_the_clock_has_put_into_the_future_is_the_jump():
    seen = initializing("60", timedelta(hours=-5))
    jumped = NOW - timedelta(seconds=20)
    assert seconds_to_timeout(replace(seen, clock_steady_since=jumped)) == 40
    before = initializing("60", timedelta(seconds=50))
    assert seconds_to_timeout(replace(before, clock_steady_since=jumped)) == 10


@pytest.mark.parametrize("again", [False, True])
def test_a_pending_cluster_that_is_made_again_was_deleted_by_somebody_else(again: bool):
    scene = Scene(edition(NEW))
    recorded: dict[str, Any] = {"rayClusterStatus": {"desiredCPU": "1"}} if again else {}
    scene.has(PENDING, edition(NEW), **recorded)
    scene.clusters.clear()
    ((create,),) = scene.plan().stages
    event = create.on_success
    assert isinstance(event, Event)
    assert event.type == ("Warning" if again else "Normal")
    assert ("the one before was deleted by somebody else" in event.note) is again
