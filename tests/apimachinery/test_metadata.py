"""Conditions, finalizers, timestamps, lists in another order: small functions on metadata."""

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
from controller.apimachinery.custom_object import in_canonical_order, read_conditions
from controller.apimachinery.metadata import ownership_text
from controller.kube.objects import ObjectMeta, OwnerReference
from controller.runtime.status import add_finalizer, remove_finalizer
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


CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "AllReady",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 7,
}


@pytest.mark.parametrize("odd", [None, True, 7, {}, {"a": 1}, ["True"]])
@pytest.mark.parametrize("field", ["status", "reason", "message", "lastTransitionTime"])
def test_what_is_no_text_in_a_condition_counts_as_absent(field: str, odd: Any):
    rest = {name: value for name, value in CONDITION.items() if name != field}
    assert read_conditions([CONDITION | {field: odd}, CONDITION]) == [rest, CONDITION]


@pytest.mark.parametrize("odd", [None, 7, [], {}, {"type": 7}])
def test_a_condition_without_a_type_is_none(odd: Any):
    assert read_conditions([odd, CONDITION]) == [CONDITION]
    assert read_conditions({"0": CONDITION}) is None


Json = dict[str, Any]


def env(*entries: tuple[str, str]) -> Json:
    return {"env": [{"name": name, "value": value} for name, value in entries]}


def same(one: Json, other: Json) -> bool:
    return in_canonical_order(one) == in_canonical_order(other)


@pytest.mark.parametrize(
    "field",
    ["volumes", "volumeMounts", "ports", "tolerations", "schedulingGates", "readinessGates",
     "imagePullSecrets", "workerGroupSpecs", "adapters", "preferredNodes"],
)  # fmt: skip
def test_what_is_read_as_a_set_or_by_name_may_be_in_any_order(field: str):
    one, two = {"name": "a", "x": 1}, {"name": "b", "x": 0}
    assert same({"spec": {field: [one, two]}}, {"spec": {field: [two, one]}})
    assert not same({field: [one, two]}, {field: [one, one]})
    assert not same({field: [one]}, {field: [one, two]})


@pytest.mark.parametrize("field", ["args", "command", "initContainers", "envFrom", "sources"])
def test_what_is_read_in_turn_may_not(field: str):
    assert not same({field: ["a", "b"]}, {field: ["b", "a"]})


def test_the_first_container_stays_first_and_the_others_are_known_by_name():
    a, b, c = ({"name": name} for name in "abc")
    assert same({"containers": [a, b, c]}, {"containers": [a, c, b]})
    assert not same({"containers": [a, b, c]}, {"containers": [b, a, c]})


def test_lists_within_lists_are_sorted_too():
    one = {"containers": [{"ports": [{"containerPort": 1}, {"containerPort": 2}]}]}
    other = {"containers": [{"ports": [{"containerPort": 2}, {"containerPort": 1}]}]}
    assert same(one, other)


def test_variables_may_be_in_any_order_unless_one_refers_to_another():
    assert same(env(("A", "1"), ("B", "2")), env(("B", "2"), ("A", "1")))
    assert not same(env(("A", "1"), ("B", "$(A)")), env(("B", "$(A)"), ("A", "1")))
    assert not same(env(("A", "1"), ("B", "x $(C) $(A)")), env(("B", "x $(C) $(A)"), ("A", "1")))
    beside = (("C", "3"), ("A", "1"), ("B", "$(A)"))
    assert same(env(*beside), env(*beside[1:], beside[0])), "C is not referred to"
    assert same(env(("A", "1"), ("B", "$(Z)")), env(("B", "$(Z)"), ("A", "1"))), "Z is unknown"


def test_of_two_variables_of_one_name_the_later_one_counts():
    assert not same(env(("A", "1"), ("A", "2")), env(("A", "2"), ("A", "1")))


@pytest.mark.parametrize("entries", [[1, "a"], [None], [{"name": 1}, {"name": "1"}], [[]]])
def test_what_is_no_list_of_variables_stays_as_it_is_written(entries: list[Any]):
    assert len(in_canonical_order({"env": entries})["env"]) == len(entries)
