"""Patches of finalizers keep all others and have the revision as precondition."""

from __future__ import annotations

from controller.kube.objects import ObjectMeta
from controller.runtime.plan import Event, MergePatch
from controller.runtime.status import add_finalizer, remove_finalizer
from tests.runtime.kit import target

META = ObjectMeta(name="a", uid="uid-a", resource_version="5", finalizers=("other", "ours"))
REMOVED = Event("Normal", "Removed", "Update", "")


def replaced(*finalizers: str, on_success: Event | None = None) -> MergePatch:
    patch = {"metadata": {"finalizers": list(finalizers)}}
    return MergePatch(target(), "uid-a", patch, resource_version="5", on_success=on_success)


def test_a_finalizer_is_added_behind_the_others_and_only_once():
    assert add_finalizer(target(), META, "new") == replaced("other", "ours", "new")
    assert add_finalizer(target(), META, "ours") is None


def test_a_finalizer_is_removed_and_all_others_stay():
    assert remove_finalizer(target(), META, "ours") == replaced("other")
    assert remove_finalizer(target(), META, "ours", on_success=REMOVED) == replaced(
        "other", on_success=REMOVED
    )
    assert remove_finalizer(target(), META, "unknown", on_success=REMOVED) is None
