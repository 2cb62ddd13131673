"""Which keys an event enqueues, and with which priority."""

from __future__ import annotations

import msgspec
import pytest

from controller.kube.objects import ConfigMap, KubeObject, ObjectMeta, OwnerReference
from controller.kube.resources import CONFIG_MAPS, NODES, PODS
from controller.runtime.caches.watches import EnqueueHandler, own_key, owner_keys
from controller.runtime.kind import Owned
from informers import Tombstone
from tests.runtime.kit import child
from tests.runtime.widgets import WIDGETS
from workqueue import LOW_PRIORITY


class Added:
    """A queue that notes what is added."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, int]] = []

    def add(self, key: str, *, priority: int) -> None:
        self.keys.append((key, priority))


def handler(**more) -> tuple[EnqueueHandler, list[tuple[str, int]]]:
    queue = Added()

    def keys(obj: ConfigMap, existing: bool) -> list[str]:
        return [f"{obj.metadata.name} {existing}", *sorted(obj.data or {})]

    return EnqueueHandler(queue, keys, **more), queue.keys  # type: ignore[arg-type]


def test_objects_of_the_initial_list_have_low_priority():
    enqueue, keys = handler()
    enqueue.on_add(child("a"), initial=True)
    enqueue.on_add(child("b"), initial=False)
    assert keys == [("a True", LOW_PRIORITY), ("b True", 0)]


def test_an_update_enqueues_the_keys_of_both_states_each_once():
    enqueue, keys = handler()
    enqueue.on_update(
        child("a", 1, data={"x": "", "y": ""}), child("a", 2, data={"y": "", "z": ""})
    )
    assert keys == [("a True", 0), ("x", 0), ("y", 0), ("z", 0)]


def test_an_update_that_changes_nothing_has_low_priority():
    enqueue, keys = handler()
    same = child("a", 1)
    enqueue.on_update(same, same)
    enqueue.on_update(child("b", 1), child("b", 1))
    assert keys == [("a True", LOW_PRIORITY), ("b True", LOW_PRIORITY)]


def test_a_deletion_enqueues_the_keys_of_the_last_state():
    enqueue, keys = handler()
    enqueue.on_delete(child("a"))
    enqueue.on_delete(Tombstone("default/b", child("b")))
    assert keys == [("a False", 0), ("b False", 0)]


def test_a_primary_has_its_own_key():
    assert own_key(child("a"), True) == own_key(child("a"), False) == ["default/a"]


def keys_of(obj: KubeObject, *, existing: bool = True, cached: str | None = "uid-owner"):
    asked = []

    def uid_of(key: str) -> str | None:
        asked.append(key)
        return cached

    keys = owner_keys(WIDGETS, Owned(CONFIG_MAPS), uid_of)(obj, existing)
    assert asked in ([], ["default/f"])
    return keys


@pytest.mark.parametrize("cached", ["uid-owner", None])
def test_a_child_enqueues_its_controller_owner(cached: str | None):
    assert keys_of(child("a"), cached=cached) == ["default/f"]
    assert keys_of(child("a", owner=""), cached=cached) == []


def test_the_owner_is_matched_by_group_and_kind_whatever_its_version():
    def owned_by(api_version: str, kind: str) -> KubeObject:
        reference = OwnerReference(
            api_version=api_version, kind=kind, name="f", uid="uid-owner", controller=True
        )
        return KubeObject(metadata=ObjectMeta("a", "default", owner_references=(reference,)))

    assert keys_of(owned_by("test.dev/v2", "Widget")) == ["default/f"]
    assert keys_of(owned_by("other.dev/v1", "Widget")) == []
    assert keys_of(owned_by("test.dev/v1", "Gadget")) == []


def test_of_a_child_of_an_earlier_owner_only_the_deletion_counts():
    assert keys_of(child("a"), cached="uid-second") == []
    assert keys_of(child("a"), cached="uid-second", existing=False) == ["default/f"]


def test_an_owner_without_a_namespace_has_its_name_as_key():
    obj = child("a")
    (reference,) = obj.metadata.owner_references
    reference = msgspec.structs.replace(reference, api_version="v1", kind="Node", name="n")
    metadata = msgspec.structs.replace(obj.metadata, owner_references=(reference,))
    keys = owner_keys(NODES, Owned(PODS), lambda _key: None)
    assert keys(msgspec.structs.replace(obj, metadata=metadata), True) == ["n"]


def test_an_object_enqueues_those_that_its_kind_names_too():
    owned = Owned(CONFIG_MAPS, also_enqueues=lambda obj: (f"for/{obj.metadata.name}",))
    keys = owner_keys(WIDGETS, owned, lambda _key: None)
    assert keys(child("a"), True) == ["default/f", "for/a"]


def test_an_owner_that_no_kind_watches_is_not_enqueued():
    owned = Owned(CONFIG_MAPS, also_enqueues=lambda obj: ("near/a", "far/a"))
    near = owner_keys(WIDGETS, owned, lambda _key: None, is_served=lambda key: key != "far/a")
    assert near(child("a"), True) == ["default/f", "near/a"]
