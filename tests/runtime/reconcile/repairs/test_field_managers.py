"""The other writer of a field is found in managedFields."""

from __future__ import annotations

from typing import Any

import pytest

from controller.runtime.reconcile.repairs import other_writer

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


def test_of_several_managers_of_a_field_the_last_one_is_named():
    old, new = (entry(name, f"2026-01-01T00:00:0{time}Z", TYPE) for name, time in
                (("z", 1), ("a", 2)))  # fmt: skip
    untimed = {"manager": "y", "fieldsV1": TYPE}
    assert found(old, untimed, new) == "another writer (a)"


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


@pytest.mark.parametrize(
    "obj", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"managedFields": None}}]
)
def test_nobody_is_named_if_the_server_tracks_no_managers(obj: dict[str, Any]):
    assert other_writer(obj, ("spec", "type"), own="manta") == "another writer"
