"""How long a RayService may take until it serves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.apimachinery.conditions import rfc3339
from controller.ray.service.clusters import seconds_to_timeout
from controller.ray.service.observation import ServiceObservation
from tests.ray.cluster.support import NOW
from tests.ray.service.scenes import OLD, Scene, edition


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
    assert seconds_to_timeout(seen, NOW) == pytest.approx(left, rel=1e-9)


def test_a_beginning_that_a_jump_of_the_clock_has_put_into_the_future_is_the_jump():
    seen = initializing("60", timedelta(hours=-5))
    jumped = NOW - timedelta(seconds=20)
    assert seconds_to_timeout(replace(seen, clock_steady_since=jumped), NOW) == 40
    before = initializing("60", timedelta(seconds=50))
    assert seconds_to_timeout(replace(before, clock_steady_since=jumped), NOW) == 10
