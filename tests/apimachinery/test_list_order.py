"""Lists that mean the same in another order."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.custom_object import in_canonical_order

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
