"""What a new status changes compared with the present one."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.objects import KubeObject, ObjectMeta, View
from controller.runtime.reconcile.status import (
    changes_only_messages,
    conditions_in,
    error_status,
    keep_messages,
    stored_status,
)
from tests.runtime.kit import NOW, child
from tests.runtime.widgets import Widget

META = ObjectMeta(name="f", namespace="default", generation=7)


class Counts(View, frozen=True):
    ready_replicas: int = 0


class Counted(KubeObject, frozen=True):
    status: Counts = Counts()


def condition(
    type_: str = "Allowed", status: str = "False", reason: str = "Refused", message: str = ""
) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def conditions(*listed: dict[str, Any]) -> dict[str, Any]:
    return {"conditions": list(listed)}


def test_a_status_is_compared_with_the_names_that_the_api_has():
    assert stored_status(Counted(status=Counts(ready_replicas=3))) == {"readyReplicas": 3}


@pytest.mark.parametrize("obj", [child(), Widget(status=None), Widget(status="odd")])  # type: ignore[arg-type]
def test_an_object_without_a_usable_status_has_an_empty_one(obj: KubeObject):
    assert stored_status(obj) == {}


@pytest.mark.parametrize("listed", [None, "odd", {"type": "Ready"}])
def test_a_status_without_a_list_of_conditions_has_none(listed: Any):
    assert [*conditions_in({"conditions": listed})] == []


@pytest.mark.parametrize("sequence", [list, tuple])
def test_conditions_are_listed_without_what_is_none(sequence: Any):
    listed = sequence(["odd", condition(), 3])
    assert [*conditions_in({"conditions": listed})] == [condition()]


def test_conditions_of_odd_values_are_compared_like_others():
    odd: dict[str, Any] = {"type": ["a"], "status": {"b": 1}, "reason": [], "message": {}}
    wanted = conditions(condition())
    assert keep_messages(conditions(odd), wanted) == wanted
    assert not changes_only_messages(conditions(odd), wanted)
    assert changes_only_messages(conditions(odd), conditions(odd), frozenset({"Allowed"}))


def test_a_message_that_differs_only_in_what_varies_is_kept():
    present = conditions(condition(message="refused, request 101"))
    wanted = {**conditions(condition(message="refused, request 102")), "children": 3}
    assert keep_messages(present, wanted) == {
        **conditions(condition(message="refused, request 101")),
        "children": 3,
    }


@pytest.mark.parametrize(
    "before",
    [
        condition(message="no quota, request 101"),
        condition(type_="Other", message="refused, request 101"),
        condition(status="True", message="refused, request 101"),
        condition(reason="Denied", message="refused, request 101"),
    ],
)
def test_the_message_of_another_outcome_is_not_kept(before: dict[str, Any]):
    wanted = conditions(condition(message="refused, request 102"))
    assert keep_messages(conditions(before), wanted) == wanted


def test_the_message_of_a_record_is_neither_kept_nor_only_words():
    present = conditions(condition(message="group-1"), condition("Ready", message="b 1"))
    wanted = conditions(condition(message="group-2"), condition("Ready", message="b 2"))
    records = frozenset({"Allowed"})
    kept = keep_messages(present, wanted, records)
    assert kept == conditions(condition(message="group-2"), condition("Ready", message="b 1"))
    assert not changes_only_messages(present, kept, records)
    assert changes_only_messages(present, wanted, frozenset({"Other"}))


def test_a_condition_without_a_message_gets_none_from_what_is_kept():
    bare = {"type": "Allowed", "status": "False", "reason": "Refused"}
    wanted = conditions(condition(message="refused"))
    assert keep_messages(conditions(bare), wanted) == wanted
    assert keep_messages(conditions(bare), conditions(bare)) == conditions(condition())
    assert keep_messages({}, conditions(bare)) == conditions(condition())


def test_a_status_without_conditions_is_kept_as_it_is():
    assert keep_messages(conditions(condition()), {"children": 3}) == {"children": 3}


def test_other_messages_of_the_same_conditions_change_only_messages():
    present = conditions(condition(message="a"), condition("Ready", message="b"))
    patch = conditions(condition(message="c"), condition("Ready", message="d"))
    assert changes_only_messages(present, patch)
    assert not changes_only_messages(present, {**patch, "children": 3})
    assert not changes_only_messages(present, {})


@pytest.mark.parametrize(
    "other", [condition("Other"), condition(status="True"), condition(reason="Denied")]
)
def test_another_outcome_changes_more_than_messages(other: dict[str, Any]):
    assert not changes_only_messages(conditions(condition()), conditions(other))


def test_an_error_is_said_in_ready_and_all_else_stays_as_it_was():
    present = {"conditions": [condition(), "odd", condition("Ready", "True")]}
    status = error_status(
        Widget(metadata=META, status=present),  # type: ignore[arg-type]
        "ReconcileError",
        "KeyError: 'a'",
        NOW,
    )
    assert status.wanted == conditions(
        condition(),
        {
            **condition("Ready", "False", "ReconcileError", "KeyError: 'a'"),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 7,
        },
    )


@pytest.mark.parametrize(
    ("present", "verdict", "generation"),
    [
        (condition("Ready", "True", "Serves") | {"observedGeneration": 6}, ("True", "Serves"), 6),
        (condition("Ready", "False", "Waits"), ("False", "Waits"), 7),
        ({"type": "Ready"}, ("False", "Initializing"), 7),
        (condition(), ("False", "Initializing"), 7),
    ],
)
def test_an_error_is_said_in_the_message_where_the_reasons_are_of_another_api(
    present: dict[str, Any], verdict: tuple[str, str], generation: int
):
    widget: Any = Widget(metadata=META, status={"conditions": [present]})
    status = error_status(widget, "ReconcileError", "KeyError: 'a'", NOW, "Initializing")
    (ready,) = [each for each in status.wanted["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == verdict
    assert ready["message"] == "ReconcileError: KeyError: 'a'"
    assert ready["observedGeneration"] == generation


def test_a_message_that_is_cut_elsewhere_because_a_number_is_longer_says_the_same():
    text = "request {} failed: the server said no; it says so at length. "
    before, after = ((text * 100).replace("{}", number)[:4096] for number in ("7", "1234567"))
    present, wanted = conditions(condition(message=before)), conditions(condition(message=after))
    assert keep_messages(present, wanted) == present


@pytest.mark.parametrize("other", ["other " * 1000, "word " * 500 + "other " * 1000, "x" * 5000])
def test_cut_messages_that_say_something_else_are_not_kept(other: str):
    present = conditions(condition(message=("word " * 1000)[:4096]))
    wanted = conditions(condition(message=other[:4096]))
    assert keep_messages(present, wanted) == wanted


def cut(text: str) -> dict[str, Any]:
    return condition(message=(text + " and so on" * 500)[:4096])


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("12 " + "word " * 817 + "deadbeefcafe", "123 " + "word " * 817 + "deadbeefcafe", True),
        ("word " * 817 + "one twothree", "word " * 817 + "six twothree", False),
        ("word " * 818 + "kind ", "word " * 818 + "node ", False),
    ],
    ids=["a cut id", "the word before the cut one", "the last whole word"],
)
def test_of_messages_that_were_cut_all_but_the_cut_word_counts(
    before: str, after: str, *, same: bool
):
    present, wanted = conditions(cut(before)), conditions(cut(after))
    assert keep_messages(present, wanted) == (present if same else wanted)


def test_a_short_message_says_something_else_than_a_cut_one_that_begins_with_it():
    present, wanted = conditions(condition(message="no quota here")), conditions(cut("no quota"))
    assert keep_messages(present, wanted) == wanted
    assert keep_messages(wanted, present) == present
