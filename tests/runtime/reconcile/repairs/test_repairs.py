"""Equal repairs back off; from the third on the other writer is named, by managedFields."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.kube.resources import PODS
from controller.runtime.plan import (
    Create,
    Delete,
    JsonPatch,
    MergePatch,
    Replace,
    Target,
    Write,
)
from controller.runtime.repairs import (
    FORGOTTEN_AFTER,
    LASTS,
    Repair,
    Repairs,
    other_writer,
    with_contested,
)
from tests.runtime.kit import NOW, create, delete, patch, target

POD = Create(Target(PODS, "default", "a"), {})
STATUS = MergePatch(target(), "uid-a", {"status": {"size": 1}}, subresource="status")


def named(writes: list[Write]) -> Repairs:
    """Repairs in which all these writes were made three times, and another writer is named."""
    repairs = Repairs()
    for at in (0.0, 1.0, 3.0):
        for write in writes:
            for repair in repairs.unnamed(write, at):
                repair.writer = "mesh"
            repairs.record(write, at)
    return repairs


def json_patch(*operations: dict[str, Any]) -> JsonPatch:
    return JsonPatch(target(), "uid-a", operations)


@pytest.mark.parametrize(
    ("write", "fields"),
    [
        (
            MergePatch(target(), "uid-a", {"spec": {"type": "None", "ip": None}, "size": 1}),
            {("spec", "type"): "None", ("spec", "ip"): None, ("size",): 1},
        ),
        (
            Replace(target(), "uid-a", {"spec": {"type": "None"}}),
            {("spec", "type"): "None"},
        ),
        (
            json_patch(
                {"op": "test", "path": "/metadata/uid", "value": "uid-a"},
                {"op": "add", "path": "/metadata/labels/a", "value": "b"},
                {"op": "remove", "path": "/spec"},
            ),
            {("metadata", "labels", "a"): "b", ("spec",): None},
        ),
    ],
)
def test_a_repair_is_one_of_each_field_that_a_write_changes(write: Write, fields: dict[Any, Any]):
    repairs = named([write]).contested(3.0)
    assert {each.path: each.value for each in repairs} == fields
    assert {each.target.name for each in repairs} == {"a"}
    assert {(each.count, each.at, each.writer) for each in repairs} == {(3, 3.0, "mesh")}


@pytest.mark.parametrize(
    "write", [POD, delete(), JsonPatch(target(), "uid-a", (), subresource="status")]
)
def test_what_repairs_no_field_never_waits(write: Create | Delete | JsonPatch):
    repairs = named([write])
    assert repairs.wait(write, 3.0) == 0.0
    assert repairs.contested(3.0) == []


def test_the_status_is_one_field_without_its_times_and_nobody_is_named_for_it():
    repairs = Repairs()
    for at in (0.0, 1.0, 3.0):
        wanted = {"size": 1, "since": f"2026-01-01T00:00:0{at:.0f}Z"}
        write = replace(STATUS, patch={"status": wanted})
        assert repairs.unnamed(write, at) == []
        repairs.record(write, at)
    assert repairs.wait(write, 3.0) == 4.0
    assert repairs.wait(replace(STATUS, patch={"status": {"size": 2}}), 3.0) == 0.0
    assert repairs.contested(3.0) == []


def test_what_was_not_needed_for_five_minutes_is_forgotten():
    repairs = named([patch(colour="red")])
    assert len(repairs.contested(302.9)) == 1
    assert repairs.unnamed(patch(colour="red"), 303.0) == []
    repairs.record(patch(colour="red"), 303.0)
    assert repairs.wait(patch(colour="red"), 303.0) == 1.0
    assert named([patch(colour="red")]).contested(303.0) == []


def test_a_repair_that_fails_for_another_reason_is_forgotten_though_it_is_planned_again():
    repairs = named([patch(colour="red")])
    due = repairs.wait(patch(colour="red"), 3.0) + 3.0
    for second in range(0, 299, 10):
        assert repairs.wait(patch(colour="red"), due + second) == 0.0
        assert repairs.contested(due + second)
    assert repairs.contested(due + FORGOTTEN_AFTER) == []


def test_an_object_that_is_deleted_again_and_again_waits_longer_each_time_it_is_created():
    repairs = Repairs()
    now = 0.0
    waits: list[float] = []
    for _ in range(9):
        repairs.record(create(), now)
        waits.append(repairs.wait(create(), now))
        assert repairs.wait(create("b"), now) == 0.0
        now += waits[-1]
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert repairs.wait(create(), now + FORGOTTEN_AFTER) == 0.0


def test_what_the_operator_deletes_itself_is_created_again_at_once():
    repairs = Repairs()
    for at in (0.0, 1.0, 2.0):
        repairs.record(create(), at)
        repairs.record(create("b"), at)
    repairs.record(replace(delete(), target=target(scope="of the deletion")), 3.0)
    assert repairs.wait(create(), 3.0) == 0.0
    assert repairs.wait(create("b"), 3.0) == 1.0


COLOURED = [patch(name, colour="red") for name in "abc"]


def next_due(repairs: Repairs, writes: list[Write], now: float) -> tuple[float, list[Write]]:
    """Return when the first of these writes may be sent, and all that may be sent then."""
    for write in writes:
        repairs.plan(write, now)
    at = now + min(repairs.wait(write, now) for write in writes)
    return at, [write for write in writes if repairs.wait(write, at) <= 0]


def test_of_several_objects_that_another_writer_changes_back_one_at_a_time_is_repaired():
    repairs, now = named([*COLOURED]), 3.0
    order: list[str] = []
    for _ in range(12):
        now, due = next_due(repairs, [*COLOURED], now)
        (write,) = due
        repairs.record(write, now)
        order.append(write.target.name)
    assert order == ["a", "b", "c"] * 4
    assert next_due(repairs, [*COLOURED], now)[0] == now + 60 - 2 * LASTS, "the last after 60 s"


def test_a_repair_that_is_undone_holds_up_the_next_object_longer_than_one_that_lasts():
    repairs = Repairs()
    first, last = COLOURED[:2]
    for write, times in ((first, (0.0, 1.0, 3.0)), (last, (0.0, 1.0, 3.0, 7.0, 15.0))):
        for at in times:
            for repair in repairs.unnamed(write, at):
                repair.writer = "mesh"
            repairs.record(write, at)
    assert repairs.wait(first, 15.0) == LASTS
    repairs.plan(last, 15.0)
    assert repairs.wait(last, 15.0) == 32.0, "its repair, the sixth of all, is undone"
    assert repairs.wait(first, 15.0) == 32.0 - LASTS


READY = {"type": "Ready", "status": "True"}


def contested(name: str) -> Repair:
    return Repair(
        target(name), ("data", "colour"), "red", count=3, at=0.0, needed_at=0.0, writer="mesh"
    )


def test_the_condition_names_every_field_in_the_same_order_each_time():
    wanted = {"children": 3, "conditions": [READY]}
    sentence = (
        "mesh keeps changing data.colour of ConfigMap {}; it is repaired at most once a minute: "
        "configure or stop one of the two writers"
    )
    assert with_contested(wanted, [contested("b"), contested("a")], 7, NOW) == {
        "children": 3,
        "conditions": [
            READY,
            {
                "type": "FieldsContested",
                "status": "True",
                "reason": "AnotherWriter",
                "message": f"{sentence.format('a')}; {sentence.format('b')}",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 7,
            },
        ],
    }


def test_of_many_fields_the_condition_names_eight_and_gives_the_number_of_the_others():
    repairs = [contested(f"{number:03}") for number in range(100)]
    (_, condition) = with_contested({"conditions": [READY]}, repairs, 7, NOW)["conditions"]
    assert condition["message"].count("mesh keeps changing") == 8
    assert condition["message"].endswith(
        "ConfigMap 007; it is repaired at most once a minute: "
        "configure or stop one of the two writers; and so with 92 more"
    )


def test_the_condition_goes_with_the_last_such_field():
    present = {"conditions": [READY, {"type": "FieldsContested", "status": "True"}]}
    assert with_contested(present, [], 7, NOW) == {"conditions": [READY]}


TYPE = {"f:spec": {"f:type": {}}}
LABEL = {"f:metadata": {"f:labels": {"f:a": {}}}}


def entry(manager: str, time: str, fields: dict[str, Any] | None, **more: str) -> dict[str, Any]:
    return {"manager": manager, "time": time, "fieldsV1": fields, **more}


def found(*entries: dict[str, Any], path: tuple[str, ...] = ("spec", "type")) -> str:
    return other_writer({"metadata": {"managedFields": list(entries)}}, path, own="manta")


def test_the_manager_of_the_field_is_the_other_writer():
    entries = (
        entry("manta", "2026-01-01T00:00:03Z", TYPE),
        entry("mesh", "2026-01-01T00:00:01Z", TYPE),
        entry("kubectl", "2026-01-01T00:00:02Z", LABEL),
        entry("kubelet", "2026-01-01T00:00:09Z", TYPE, subresource="status"),
        entry("before-first-apply", "2026-01-01T00:00:09Z", TYPE),
    )
    assert found(*entries) == "another writer (mesh)"
    assert found(*entries, path=("spec", "gone")) == "another writer (perhaps kubectl or mesh)"


def test_a_manager_is_named_once():
    entries = (
        entry("mesh", "2026-01-01T00:00:01Z", LABEL),
        entry("mesh", "2026-01-01T00:00:02Z", LABEL, subresource="scale"),
    )
    assert found(*entries) == "another writer (perhaps mesh)"


@pytest.mark.parametrize(
    ("fields", "owns"),
    [
        ({"f:spec": {}}, True),
        ({"f:spec": {"f:type": {"f:part": {}}}}, True),
        ({"f:spec": {"f:other": {}}}, False),
        ({"f:metadata": {}}, False),
        ({"type": {}}, False),
        (None, False),
    ],
)
def test_an_empty_set_stands_for_everything_below(fields: Any, *, owns: bool):
    said = found(entry("mesh", "2026-01-01T00:00:01Z", fields))
    assert said == ("another writer (mesh)" if owns else "another writer (perhaps mesh)")
