"""How long a RayService may take until it serves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controller.apimachinery.timestamps import rfc3339
from controller.ray.service.initializing import seconds_to_timeout
from tests.ray.cluster.support import NOW
from tests.ray.service.scenes import OLD, Scene, edition


@pytest.mark.parametrize(("timeout", "left"), [("60", 20.0), ("1m", 20.0), ("9" * 13, 1e13)])
def test_the_time_left_counts_from_its_beginning_however_long_it_is(timeout: str, left: float):
    wanted = edition(OLD)
    wanted["metadata"]["annotations"] = {"ray.io/initializing-timeout": timeout}
    scene = Scene(wanted)
    ready = {"type": "Ready", "status": "False", "reason": "Initializing"}
    since = rfc3339(NOW - timedelta(seconds=40))
    scene.status["conditions"] = [ready | {"lastTransitionTime": since}]
    assert seconds_to_timeout(scene.observe(), NOW) == pytest.approx(left, rel=1e-9)
