"""The hashes that are recorded on pods that do not say what they were made from."""

from __future__ import annotations

from typing import Any

from controller.kube.objects import Pod
from controller.ray.cluster.rolling_units import hides_an_edit
from tests.ray.cluster.support import pod
from tests.ray.cluster.upgrade.rolling.scenes import (
    observed_object,
    old,
    recorded,
    rolling,
    without_rolling,
)

UNKNOWN_POD = pod("b")


def test_an_edit_is_not_seen_before_all_pods_say_what_they_were_made_from():
    def hides(obj: Any, *pods: Pod) -> bool:
        seen = observed_object(obj, *pods)
        return hides_an_edit(seen)

    edited = recorded(rolling(2), observed=0)
    assert hides(edited, UNKNOWN_POD)
    assert not hides(edited, old("a"))
    assert not hides(recorded(rolling(2)), UNKNOWN_POD)
    assert not hides(recorded(without_rolling(2), observed=0), UNKNOWN_POD)
