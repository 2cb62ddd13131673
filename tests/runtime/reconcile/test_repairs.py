"""Equal repairs of one field back off, and the other writer is found in managedFields."""

from __future__ import annotations

from typing import Any

from controller.runtime.reconcile.field_managers import other_writer
from controller.runtime.reconcile.repairs import Repairs
from tests.runtime.kit import patch


def entry(manager: str, time: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "time": time, "fieldsV1": fields, **more}


def managed(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"managedFields": list(entries)}}


TYPE = {"f:spec": {"f:type": {}}}
LABEL = {"f:metadata": {"f:labels": {"f:a": {}}}}


def test_equal_repairs_wait_longer_each_time():
    repairs = Repairs()
    now = 0.0
    waits: list[float] = []
    for _ in range(9):
        repairs.record(patch(colour="red"), now)
        waits.append(repairs.wait(patch(colour="red"), now))
        now += waits[-1]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_another_value_field_or_object_does_not_wait():
    repairs = Repairs()
    repairs.record(patch(colour="red"), 0.0)
    assert repairs.wait(patch(colour="blue"), 0.0) == 0.0
    assert repairs.wait(patch(colour="red", size="1"), 0.0) == 0.0
    assert repairs.wait(patch("b", colour="red"), 0.0) == 0.0


def test_the_other_writer_is_named_from_the_third_repair_on_and_forgotten_when_it_stops():
    repairs = Repairs()
    found: list[int] = []
    for at in (0.0, 1.0, 3.0, 7.0):
        unnamed = repairs.unnamed(patch(colour="red"), at)
        found.append(len(unnamed))
        for repair in unnamed:
            repair.writer = "another writer (mesh)"
        repairs.record(patch(colour="red"), at)
    assert found == [0, 0, 1, 0]
    assert [each.writer for each in repairs.contested(20.0)] == ["another writer (mesh)"]
    assert repairs.contested(400.0) == []


def test_the_manager_of_the_field_is_the_other_writer():
    found = managed(
        entry("manta", "2026-01-01T00:00:03Z", TYPE),
        entry("mesh", "2026-01-01T00:00:01Z", TYPE),
        entry("kubectl", "2026-01-01T00:00:02Z", LABEL),
        entry("kubelet", "2026-01-01T00:00:09Z", TYPE, subresource="status"),
    )
    assert other_writer(found, ("spec", "type"), own="manta") == "another writer (mesh)"
    assert other_writer(found, ("spec", "gone"), own="manta") == (
        "another writer (perhaps kubectl or mesh)"
    )
    assert other_writer({}, ("spec", "type"), own="manta") == "another writer"
