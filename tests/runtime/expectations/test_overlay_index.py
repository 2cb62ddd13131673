"""One overlay: which caches it reads, what it knows of their state, what it keeps."""

from __future__ import annotations

import pytest

from controller.kube.objects import ConfigMap, ObjectMeta
from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.expectations.expectation import (
    Expectation,
    ObjectReference,
    StoreState,
)
from controller.runtime.expectations.overlay import (
    NotCached,
    Overlay,
    OverlayIndex,
    metadata_of,
)
from informers import Store, Undecodable
from tests.runtime.kit import child


def store(*objects: ConfigMap, revision: str = "9") -> Store[ConfigMap]:
    made: Store[ConfigMap] = Store({"data": by_data})
    made.replace(objects, revision)
    return made


def by_data(obj: ConfigMap) -> tuple[str, ...]:
    return tuple(obj.data or ())


def overlay(*objects: ConfigMap, namespace: str = "") -> Overlay[ConfigMap]:
    made = Overlay(CONFIG_MAPS)
    made.add_cache(namespace, store(*objects), {"data": by_data}, {})
    return made


def expected(name: str, revision: int, *data: str) -> Expectation[ConfigMap]:
    obj = child(name, revision, data=dict.fromkeys(data, ""))
    return Expectation(ObjectReference(CONFIG_MAPS, obj.metadata.key), obj=obj)


def names(found: list[ConfigMap]) -> list[str]:
    return sorted(obj.metadata.name for obj in found)


def test_a_cache_of_all_namespaces_covers_each():
    everywhere, one = overlay(), overlay(namespace="default")
    assert (everywhere.covers("default"), everywhere.covers("")) == (True, True)
    assert (one.covers("default"), one.covers("else"), one.covers("")) == (True, False, False)
    assert (everywhere.scope_of("default"), one.scope_of("default")) == ("", "default")
    assert (everywhere.watched, Overlay(PODS).watched) == (True, False)


def test_what_is_not_watched_is_named_with_its_namespace():
    def words(made: Overlay, namespace: str) -> str:
        with pytest.raises(NotCached) as raised:
            made.cache_of(namespace)
        return str(raised.value)

    assert words(Overlay(CONFIG_MAPS), "else") == "configmaps are not watched by any kind"
    one = overlay(namespace="default")
    assert words(one, "else") == "configmaps in namespace else are not watched by any kind"
    assert words(one, "") == "configmaps are not watched by any kind"
    with pytest.raises(NotCached) as raised:
        Overlay(CONFIG_MAPS).by_index("data", "x")
    assert str(raised.value) == "configmaps are not watched by any kind"


def test_EXP45_the_state_of_the_store_is_known_where_it_is_the_latest():
    made = overlay(child("a", 5))
    assert made.state_of("default/a") == StoreState("9", "uid-a", "5")
    assert made.state_of("default/b") == StoreState("9")
    odd = {"default/odd": Undecodable("default/odd", "u", "4", "phase")}
    made.add_cache("", store(child("odd", 3)), {}, odd)
    assert made.state_of("default/odd") == StoreState()
    assert made.state_of("default/a") == StoreState("9")
    assert overlay(namespace="else").state_of("default/a") == StoreState()
    one = overlay(child("a", 5), namespace="default")
    assert one.state_of("default/a") == StoreState("9", "uid-a", "5")


def test_EXP45_an_answer_from_before_what_the_store_held_contradicts_it():
    held = StoreState("100", "uid-a", "50")
    assert not held.is_contradicted_by(child("a", 50), new=False)
    assert held.is_contradicted_by(child("a", 60), new=False)
    assert not held.is_contradicted_by(child("a", 101), new=False)
    assert not held.is_contradicted_by(child("b", 60), new=False)
    assert held.is_contradicted_by(child("b", 60), new=True)
    assert not held.is_contradicted_by(child("b", 100), new=True)


def test_the_metadata_of_an_odd_object_are_what_could_be_decoded():
    meta = ObjectMeta(name="a", namespace="ns", uid="u", labels={"k": "v"})
    decoded = Undecodable("ns/a", "u", "1", "phase", metadata=meta)
    assert metadata_of(decoded) is meta
    assert metadata_of(Undecodable("ns/a", "u", "1", "phase")) == ObjectMeta(
        name="a", namespace="ns", uid="u"
    )
    assert metadata_of(Undecodable("a", "u", "1", "phase")) == ObjectMeta(name="a", uid="u")


def test_an_expected_object_is_found_under_each_of_its_values():
    made = overlay(child("a", 2, data={"x": "", "y": ""}), child("b", 3, data={"x": ""}))
    assert names(made.by_index("data", "x")) == ["a", "b"]
    made.put(expected("a", 10, "y", "z"))
    made.put(expected("c", 11, "x", "z"))
    assert names(made.by_index("data", "x")) == ["b", "c"]
    assert names(made.by_index("data", "y")) == ["a"]
    assert names(made.by_index("data", "z")) == ["a", "c"]
    assert made.corrections == 3


def test_reads_that_correct_nothing_are_not_counted():
    made = overlay(child("a", 2, data={"x": ""}))
    made.put(expected("a", 1, "x"))
    made.put(expected("c", 10, "z"))
    assert names(made.by_index("data", "x")) == ["a"]
    assert made.get("default/a") == child("a", 2, data={"x": ""})
    assert made.get("default/b") is None
    assert made.corrections == 0
    newer = made.get("default/c")
    assert newer is not None
    assert made.corrections == 1


def test_one_object_in_place_of_another_is_a_correction():
    made = overlay(child("a", 2, data={"x": ""}))
    made.put(expected("a", 10, "x"))
    (found,) = made.by_index("data", "x")
    assert found.metadata.resource_version == "10"
    assert made.corrections == 1


def test_what_is_expected_in_one_namespace_is_found_there():
    made = overlay(namespace="default")
    made.put(expected("a", 10, "x"))
    assert names(made.by_index("data", "x")) == ["a"]


def test_an_object_is_found_once_although_it_is_stored_and_expected():
    made = overlay(child("a", 12, data={"x": ""}))
    made.put(expected("a", 10, "x"))
    assert names(made.by_index("data", "x")) == ["a"]
    made.put(expected("a", 20, "x"))
    assert names(made.by_index("data", "x")) == ["a"]


def test_an_expectation_that_changes_is_found_under_its_new_values_only():
    made = overlay()
    expectation = expected("a", 10, "x")
    made.put(expectation)
    expectation.obj = child("a", 11, data={"z": ""})
    made.put(expectation)
    assert names(made.by_index("data", "x")) == []
    assert names(made.by_index("data", "z")) == ["a"]
    expectation.obj = None
    made.put(expectation)
    assert names(made.by_index("data", "z")) == []
    assert list(made.expectations()) == [expectation]


def test_nothing_is_left_of_an_expectation_that_was_dropped():
    made = overlay()
    made.put(expected("a", 10, "x"))
    made.put(expected("b", 10, "x"))
    made.drop("default/a")
    assert names(made.by_index("data", "x")) == ["b"]
    assert made.get_expectation("default/a") is None
    made.drop("default/b")
    made.drop("default/never")
    assert (made._expectations, made._indexed, made._values) == ({}, {}, {})


def test_nothing_is_left_of_an_expectation_that_changed_and_was_dropped():
    made = overlay()
    expectation = expected("a", 10, "x")
    made.put(expectation)
    expectation.obj = child("a", 11, data={"z": ""})
    made.put(expectation)
    made.drop("default/a")
    assert names(made.by_index("data", "x")) == []
    assert (made._expectations, made._indexed, made._values) == ({}, {}, {})


def test_there_is_one_overlay_for_each_resource():
    index = OverlayIndex()
    maps = index.get(CONFIG_MAPS)
    assert index.get(CONFIG_MAPS) is maps
    assert maps.resource is CONFIG_MAPS
    pods = index.get(PODS)
    assert index.all() == [maps, pods]
    expectation = expected("a", 10)
    maps.put(expectation)
    assert index.get_expectation(expectation.reference) is expectation
    assert index.get_expectation(ObjectReference(PODS, "default/a")) is None


def test_an_index_function_may_give_the_same_value_twice():
    def twice(obj: ConfigMap) -> tuple[str, ...]:
        return (*by_data(obj), *by_data(obj))

    made = Overlay(CONFIG_MAPS)
    made.add_cache("", store(), {"data": twice}, {})
    made.put(expected("a", 10, "x"))
    assert names(made.by_index("data", "x")) == ["a"]
    made.drop("default/a")
    assert made.by_index("data", "x") == []
