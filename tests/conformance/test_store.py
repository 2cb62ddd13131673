"""The store, its indexes and its revision."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc

import pytest
from prometheus_client import CollectorRegistry

from benchmarks.pods import watch_line
from controller.kube.objects import Pod
from controller.ray.api.raycluster import RayCluster
from informers import Codec, IndexFunctionError, Store, is_comparable, key_of, object_key
from informers.processor import Processor
from informers.prometheus import InformerCollector, InformerLabels
from informers.store import Replaced, Upserted, is_newer, is_older
from tests.informers.doubles import Meta, Thing


def thing(name: str, revision: int | str = 1, colour: str = "", uid: str = "") -> Thing:
    return Thing(Meta(name, "ns", uid or f"uid-{name}", str(revision)), colour)


def colours(obj: Thing) -> list[str]:
    return obj.colour.split(",") if obj.colour else []


def store() -> Store[Thing]:
    return Store({"colour": colours})


def names(objects) -> set[str]:
    return {obj.metadata.name for obj in objects}


def buckets(filled: Store[Thing]) -> dict[str, set[str]]:
    return {value: set(keys) for value, keys in filled._indexes["colour"].found.items()}


class TestContents:
    def test_what_was_put_can_be_read_until_it_is_removed_or_replaced(self):
        filled = store()
        assert filled.put(thing("a", 1, "red")) is None
        assert filled.put(thing("b", 2, "blue")) is None
        assert filled.put(thing("a", 3, "blue")) == thing("a", 1, "red")
        assert filled.get("ns/a") == thing("a", 3, "blue")
        assert filled.get("ns/c") is None
        assert names(filled.list()) == {"a", "b"}
        assert len(filled) == 2
        assert filled.remove("ns/b", "4") == thing("b", 2, "blue")
        assert filled.remove("ns/b", "5") is None
        assert names(filled.list()) == {"a"}
        filled.replace([thing("c", 6)], "7")
        assert names(filled.list()) == {"c"}

    @pytest.mark.parametrize("relisted", [False, True])
    def test_a_new_version_has_the_equal_parts_of_the_one_before(self, relisted: bool):
        codec = Codec(RayCluster)
        filled: Store[RayCluster] = Store({})

        def stored(revision: str, value: object, state: str) -> RayCluster:
            meta = {"name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": revision}
            spec = {"deep": [{"value": value}]}
            obj = {"metadata": meta, "spec": spec, "status": {"state": state}}
            if relisted:
                page = {"kind": "RayClusterList", "metadata": meta, "items": [obj]}
                (made,) = codec.page(json.dumps(page).encode(), filled.get).objects
            else:
                event = {"type": "MODIFIED", "object": obj}
                made = codec.event(json.dumps(event).encode(), filled.get).object
            filled.put(made)
            return made

        first, second = stored("1", 1, ""), stored("2", 1, "ready")
        assert second.spec is first.spec
        assert second.status == {"state": "ready"}
        assert second.metadata.resource_version == "2"
        third = stored("3", True, "ready")  # equals 1
        assert third.spec["deep"][0]["value"] is True
        assert third.status is second.status

    def test_objects_that_cannot_be_indexed_are_named_and_the_others_stored(self):
        def picky(obj: Thing) -> list[str]:
            if obj.colour == "bad":
                raise ValueError("bad colour")
            return [obj.colour]

        filled = Store({"colour": picky})
        processor = Processor(filled)
        processor.replace(Replaced([thing("a", 1, "red"), thing("b", 1, "red")], (), "1"))
        changes = processor.replace(
            Replaced([thing("a", 2, "blue"), thing("b", 2, "bad"), thing("c", 2, "bad")], (), "2")
        )
        assert [change.new.metadata.name for change in changes] == ["a"]
        assert set(processor.quarantined) == {"ns/b", "ns/c"}
        assert "bad colour" in processor.quarantined["ns/b"].reason
        assert filled.get("ns/b") == thing("b", 1, "red")
        assert names(filled.by_index("colour", "red")) == {"b"}
        assert processor.apply(Upserted(thing("a", 3, "bad"))) == []
        assert filled.get("ns/a") == thing("a", 2, "blue")
        assert filled.resource_version == "3"

    def test_what_the_store_gives_out_cannot_be_changed_through_it(self):
        filled = store()
        filled.put(thing("a", 1, "red"))
        with pytest.raises(AttributeError):
            filled.get("ns/a").colour = "blue"
        filled.list().clear()
        assert len(filled) == 1
        red = filled.by_index("colour", "red")
        filled.put(thing("b", 2, "red"))
        assert names(red) == {"a"}

    def test_views_of_the_controller_are_immutable_all_the_way_down(self):
        pod = Codec(Pod).event(watch_line(1)).object
        for part, field in (
            (pod, "spec"),
            (pod.metadata, "name"),
            (pod.status.conditions[0], "status"),
        ):
            with pytest.raises(AttributeError):
                setattr(part, field, None)
        assert isinstance(pod.status.conditions, tuple)


class TestIndexes:
    def test_one_object_can_have_many_values(self):
        filled = store()
        filled.put(thing("a", 1, "red,blue"))
        filled.put(thing("b", 2, "blue"))
        assert names(filled.by_index("colour", "blue")) == {"a", "b"}
        assert names(filled.by_index("colour", "red")) == {"a"}
        assert filled.by_index("colour", "none") == []
        with pytest.raises(KeyError):
            filled.by_index("size", "1")

    def test_a_value_without_objects_leaves_nothing_behind(self):
        filled = store()
        for round_ in range(100):
            filled.put(thing("a", round_ + 1, f"colour-{round_}"))
        assert buckets(filled) == {"colour-99": {"ns/a"}}
        filled.remove("ns/a", "200")
        assert buckets(filled) == {}

    def test_reading_an_unknown_value_leaves_nothing_behind(self):
        filled = store()
        filled.by_index("colour", "red")
        assert buckets(filled) == {}

    def test_other_objects_with_the_same_value_stay(self):
        filled = store()
        filled.put(thing("a", 1, "red"))
        filled.put(thing("b", 2, "red"))
        filled.remove("ns/a", "3")
        assert buckets(filled) == {"red": {"ns/b"}}

    def test_moving_from_a_and_b_to_b_and_c_leaves_a(self):
        filled = store()
        filled.put(thing("x", 1, "a,b"))
        filled.put(thing("x", 2, "b,c"))
        assert buckets(filled) == {"b": {"ns/x"}, "c": {"ns/x"}}

    def test_an_index_added_later_knows_what_is_there(self):
        filled = Store[Thing]()
        filled.put(thing("a", 1, "red"))
        filled.add_index("colour", colours)
        assert names(filled.by_index("colour", "red")) == {"a"}
        filled.replace([thing("b", 2, "red")], "2")
        assert names(filled.by_index("colour", "red")) == {"b"}

    def test_two_indexes_of_one_name_are_refused(self):
        with pytest.raises(IndexFunctionError):
            store().add_index("colour", colours)

    def test_an_index_function_that_raises_changes_nothing(self):
        def picky(obj: Thing) -> list[str]:
            return [str(1 // int(obj.colour or "1"))]

        filled = Store({"colour": colours, "picky": picky})
        filled.put(thing("a", 1, "1"))
        with pytest.raises(IndexFunctionError, match="'picky' on ns/a"):
            filled.put(thing("a", 2, "0"))
        with pytest.raises(IndexFunctionError):
            filled.replace([thing("b", 2), thing("c", 2, "0")], "2")
        assert filled.list() == [thing("a", 1, "1")]
        assert filled.resource_version == "1"
        assert buckets(filled) == {"1": {"ns/a"}}
        with pytest.raises(IndexFunctionError):
            filled.add_index("bad", lambda obj: [obj.nothing])
        with pytest.raises(KeyError):
            filled.by_index("bad", "")


class TestRevision:
    def test_each_change_sets_the_store_s_revision(self):
        filled = store()
        assert filled.resource_version == ""
        filled.replace([], "10")
        assert filled.resource_version == "10"
        filled.put(thing("a", 11))
        assert filled.resource_version == "11"
        filled.put(thing("a", 12))
        assert filled.resource_version == "12"
        filled.remove("ns/a", "13")
        assert filled.resource_version == "13"
        filled.remove("ns/unknown", "14")
        assert filled.resource_version == "14"
        filled.advance("15")
        assert filled.resource_version == "15"
        filled.remove("ns/unknown", "")
        assert filled.resource_version == "15"

    def test_it_goes_back_only_with_a_replacement(self):
        filled = store()
        filled.replace([], "100")
        filled.put(thing("a", 99))
        filled.advance("98")
        filled.remove("ns/a", "97")
        assert filled.resource_version == "100"
        filled.replace([], "9")
        assert filled.resource_version == "9"

    @pytest.mark.parametrize(
        ("a", "b", "sign"),
        [
            ("1", "1", 0),
            ("1", "2", -1),
            ("2", "1", 1),
            ("9", "10", -1),
            ("100", "99", 1),
            ("5" * 50, "5" * 49 + "6", -1),
            ("1" + "0" * 50, "9" * 50, 1),
        ],
    )
    def test_revisions_are_compared_by_length_then_by_character(self, a, b, sign):
        assert is_newer(a, b) - is_older(a, b) == sign

    @pytest.mark.parametrize("bad", ["", "0", "01", "-1", "1.0", "1 ", "abc", "1a", "²", "١"])  # noqa: RUF001  digits that are not ASCII
    def test_what_is_not_a_revision_is_not_compared(self, bad):
        assert not is_comparable(bad)
        for a, b in ((bad, "1"), ("1", bad)):
            assert (is_newer(a, b), is_older(a, b)) == (True, False)

    def test_comparison_agrees_with_integers(self):
        rng = random.Random(5)
        for _ in range(100_000):
            a = rng.randint(1, 10 ** rng.randint(1, 25))
            b = rng.choice(
                [a, a + rng.randint(-1, 1) or 1, rng.randint(1, 10 ** rng.randint(1, 25))]
            )
            found = is_newer(str(a), str(b)) - is_older(str(a), str(b))
            assert found == (a > b) - (a < b)


class TestKeys:
    @pytest.mark.parametrize(
        ("namespace", "name", "key"), [("ns", "a", "ns/a"), ("", "node-1", "node-1")]
    )
    def test_a_key_is_namespace_and_name(self, namespace, name, key):
        assert object_key(namespace, name) == key

    def test_an_object_has_the_key_of_its_metadata(self):
        assert key_of(thing("a")) == "ns/a"


class TestNames:
    IDENTITY = InformerLabels("pods", "", "v1", "pods")

    def test_empty_and_repeated_names_are_refused_and_released_ones_are_free(self):
        class Clock:
            def time(self) -> float:
                return 0.0

        metrics = InformerCollector(CollectorRegistry(), clock=Clock())
        with pytest.raises(ValueError, match="without a name"):
            metrics.recorder(InformerLabels("", "", "v1", "pods"))
        first = metrics.recorder(self.IDENTITY)
        with pytest.raises(ValueError, match="already"):
            metrics.recorder(self.IDENTITY)
        first.stopped()
        metrics.recorder(self.IDENTITY)
        first.stopped()
        with pytest.raises(ValueError, match="already"):
            metrics.recorder(self.IDENTITY)


@pytest.mark.slow
def test_a_cached_pod_costs_at_most_four_kibibytes():
    """In this process; `make bench` measures up to 50,000 pods, each size in its own."""
    codec, filled = Codec(Pod), Store({"owner": lambda pod: [pod.metadata.controller.uid]})
    lines = [watch_line(number) for number in range(2000)]
    gc.collect()
    tracemalloc.start()
    try:
        for line in lines:
            filled.put(codec.event(line).object)
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(filled) == 2000
    assert used / 2000 < 2048
