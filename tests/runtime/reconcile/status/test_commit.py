"""A step of a state machine is stored once, on what was observed."""

from __future__ import annotations

from controller.kube.resources import CONFIG_MAPS
from controller.runtime.plan import Event, MergePatch
from controller.runtime.reconcile.status import status_commit
from tests.runtime.kit import child, target


def test_the_patch_holds_for_the_object_as_it_was_observed():
    event = Event("Normal", "Begun", "Begin", "The step has begun")
    made = status_commit(CONFIG_MAPS, child("a", 7).metadata, "step", {"phase": "Next"}, event)
    assert made == MergePatch(
        target("a", "step"),
        "uid-a",
        {"status": {"phase": "Next"}},
        subresource="status",
        resource_version="7",
        on_success=event,
    )
    assert status_commit(CONFIG_MAPS, child().metadata, "step", {}).on_success is None
