"""Conditions, finalizers, timestamps: small functions on metadata."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from controller.apimachinery.conditions import (
    ConditionSet,
    find_condition,
    parse_rfc3339,
    rfc3339,
    rfc3339_micro,
    time_of,
)
from controller.apimachinery.ownership import ownership_text
from controller.kube.objects import ObjectMeta, OwnerReference
from controller.runtime.reconcile.status import add_finalizer, remove_finalizer
from tests.runtime.kit import target

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def ready(conditions: list[dict], status: str, now: datetime, message: str = "") -> list[dict]:
    changed = ConditionSet(conditions, 3, now)
    changed.set("Ready", status, "Because", message)
    return changed.as_list()


def test_a_transition_is_a_change_of_status_and_nothing_else():
    first = ready([], "False", NOW)
    same = ready(first, "False", LATER, "more words")
    changed = ready(same, "True", LATER)
    assert first[0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert same[0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert same[0]["message"] == "more words"
    assert changed[0]["lastTransitionTime"] == "2026-01-01T12:01:00Z"
    assert ready(first, "False", LATER) == first, "setting the same again changes nothing"


def test_the_order_of_conditions_is_kept_and_others_are_left_alone():
    other = {"type": "Other", "status": "True", "unknownField": 1}
    conditions = ready([{"type": "First"}, other], "True", NOW)
    assert [c["type"] for c in conditions] == ["First", "Other", "Ready"]
    assert ready(conditions, "False", LATER)[1] == other
    assert find_condition(conditions, "Ready")["observedGeneration"] == 3
    assert find_condition(conditions, "Missing") is None
    rest = ConditionSet(conditions, 3, NOW)
    rest.remove("First")
    assert [c["type"] for c in rest.as_list()] == ["Other", "Ready"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        2**63,
        ["2026-08-20T10:00:00Z"],
        "",
        "x",
        "2026-08-20T10:00:00",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
    ],
)
def test_a_field_that_is_no_time_or_one_of_a_distant_year_counts_as_absent(value: Any):
    assert time_of(value) is None


def test_the_time_of_a_field_is_in_utc():
    assert str(time_of("2026-08-20T12:00:00+02:00")) == "2026-08-20 10:00:00+00:00"


def test_a_finalizer_is_added_beside_those_of_others():
    meta = ObjectMeta(name="a", uid="u", resource_version="7", finalizers=("theirs",))
    patch = add_finalizer(target(), meta, "ours")
    assert patch.patch == {"metadata": {"finalizers": ["theirs", "ours"]}}
    assert (patch.uid, patch.resource_version) == ("u", "7")
    assert add_finalizer(target(), ObjectMeta(finalizers=("ours",)), "ours") is None


def test_a_finalizer_is_removed_alone_and_only_if_it_is_there():
    meta = ObjectMeta(name="a", uid="u", resource_version="7", finalizers=("a", "ours", "z"))
    patch = remove_finalizer(target(), meta, "ours")
    assert patch.patch == {"metadata": {"finalizers": ["a", "z"]}}
    assert (patch.uid, patch.resource_version) == ("u", "7")
    assert remove_finalizer(target(), ObjectMeta(), "ours") is None


def test_timestamps_are_utc():
    east = datetime(2026, 1, 1, 14, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    assert rfc3339(east) == "2026-01-01T12:00:00Z"
    assert rfc3339_micro(east) == "2026-01-01T12:00:00.000005Z"
    assert parse_rfc3339("2026-01-01T12:00:00Z") == NOW
    with pytest.raises(ValueError, match="offset"):
        parse_rfc3339("2026-01-01T12:00:00")
    for distant in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        with pytest.raises(ValueError, match="out of range"):
            parse_rfc3339(distant)


def test_messages_name_the_controller_of_an_object_if_it_is_known():
    owner = OwnerReference("ray.io/v1", "RayJob", "nightly", "4d1f", controller=True)
    assert ownership_text(None) == "belongs to another owner"
    assert ownership_text(ObjectMeta(name="a")) == "belongs to no controller"
    owned = ObjectMeta(name="a", owner_references=(owner,))
    assert ownership_text(owned) == "belongs to RayJob nightly (uid 4d1f)"
