"""The hashes that are recorded on pods that do not say what they were made from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.cluster.rolling_units import hides_an_edit, stamp_writes, unstamped_pods
from controller.ray.head import worker_scope
from controller.ray.settings import RaySettings
from controller.runtime.plan import MergePatch
from tests.ray.cluster.support import pod
from tests.ray.cluster.upgrade.rolling.scenes import (
    observed_object,
    old,
    recorded,
    rolling,
    without_rolling,
)

UNKNOWN_POD = pod("b")


def stamps(obj: Any, *pods: Pod, batch: int = 9, **changes: Any) -> dict[str, str]:
    """What is recorded on pods, by name."""
    seen = observed_object(obj, *pods, **changes)
    writes = list(stamp_writes(replace(seen, settings=RaySettings(batch=batch))))
    assert all(isinstance(each, MergePatch) for each in writes)
    return {
        each.target.name: each.patch["metadata"]["annotations"][labels.TEMPLATE_HASH]
        for each in writes
        if isinstance(each, MergePatch)
    }


def test_so_many_pods_are_recorded_at_a_time_and_none_while_a_write_has_no_outcome():
    obj = recorded(rolling(2))
    assert len(stamps(obj, UNKNOWN_POD, pod("c"), batch=1)) == 1
    pending = frozenset({worker_scope("workers")})
    assert stamps(obj, UNKNOWN_POD, pending_scopes=pending) == {}


def test_pods_that_go_and_those_of_removed_groups_need_not_say_it():
    gone, removed = pod("d", terminating=True), pod("c", group="removed")
    seen = observed_object(recorded(rolling(2)), gone, removed, UNKNOWN_POD)
    assert [found.metadata.name for found, _ in unstamped_pods(seen)] == ["b"]


def test_an_edit_is_not_seen_before_all_pods_say_what_they_were_made_from():
    def hides(obj: Any, *pods: Pod) -> bool:
        seen = observed_object(obj, *pods)
        return hides_an_edit(seen)

    edited = recorded(rolling(2), observed=0)
    assert hides(edited, UNKNOWN_POD)
    assert not hides(edited, old("a"))
    assert not hides(recorded(rolling(2)), UNKNOWN_POD)
    assert not hides(recorded(without_rolling(2), observed=0), UNKNOWN_POD)
