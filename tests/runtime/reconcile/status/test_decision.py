"""The decision whether a status is written now, later, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.objects import KubeObject, ObjectMeta, View
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.plan import Event, MergePatch, StatusPatch
from controller.runtime.status import (
    MESSAGE_INTERVAL,
    StatusDecision,
    StatusHistory,
    changes_only_messages,
    conditions_in,
    error_status,
    keep_messages,
    status_commit,
    stored_status,
)
from tests.runtime.kit import NOW, child, target
from tests.runtime.widgets import Widget, WidgetStatus

META = ObjectMeta(name="f", namespace="default", uid="u")


class Bench:
    def __init__(self) -> None:
        self.now = 1000.0
        self.conditions: list[dict[str, Any]] = []
        self.history = StatusHistory()

    def decide(self, wanted: dict[str, Any], *, failing: bool = False, **of: Any) -> StatusDecision:
        obj = widget(2, *self.conditions)
        status = StatusPatch(wanted, **of)
        return self.history.decide(obj, status, wanted, self.now, failing=failing)

    def write(self, wanted: dict[str, Any], *, stored: int, names_failure: bool = False) -> None:
        self.history.written(widget(stored), wanted, self.now, names_failure=names_failure)


def widget(children: int, *conditions: dict[str, Any]) -> Widget:
    return Widget(metadata=META, status=WidgetStatus(children, conditions))


def condition(message: str) -> dict[str, Any]:
    listed = {"type": "Ready", "status": "False", "reason": "Refused", "message": message}
    return {"conditions": [listed]}


def test_only_what_differs_is_written():
    bench = Bench()
    assert bench.decide({"children": 3}).patch == {"children": 3}
    assert bench.decide({"children": 2}) == StatusDecision()


def test_a_status_waits_for_its_interval_unless_it_is_urgent():
    bench = Bench()
    bench.write({"children": 2}, stored=2)
    bench.now += 4
    assert bench.decide({"children": 3}, interval=10, urgent=False).wait == 6
    assert bench.decide({"children": 3}, interval=10, urgent=True).patch
    bench.now += 6
    assert bench.decide({"children": 3}, interval=10, urgent=False).patch


def test_what_the_server_pruned_is_not_written_again():
    bench = Bench()
    bench.write({"children": 2, "note": "x"}, stored=2)
    assert bench.decide({"children": 2, "note": "x"}) == StatusDecision()
    assert bench.decide({"children": 2, "note": "y"}).patch


def test_other_words_for_a_named_failure_are_written_now_and_then():
    bench = Bench()
    seen = Widget(metadata=META, status=WidgetStatus(conditions=condition("one")["conditions"]))
    wanted = condition("quite another sentence")
    bench.history.written(seen, condition("one"), bench.now, names_failure=True)
    bench.now += MESSAGE_INTERVAL - 1
    reworded = StatusPatch(wanted)
    assert bench.history.decide(seen, reworded, wanted, bench.now, failing=True) == StatusDecision()
    bench.now += 1
    assert bench.history.decide(seen, reworded, wanted, bench.now, failing=True).patch == wanted


def test_a_record_is_written_although_failures_have_been_named_just_now():
    bench = Bench()
    seen = Widget(metadata=META, status=WidgetStatus(conditions=condition("group-1")["conditions"]))
    wanted = condition("group-2")
    bench.history.written(seen, condition("group-1"), bench.now, names_failure=True)
    told = StatusPatch(wanted, records=frozenset({wanted["conditions"][0]["type"]}))
    assert bench.history.decide(seen, told, wanted, bench.now, failing=True).patch == wanted


def test_other_words_wait_for_the_interval_while_nothing_fails():
    bench = Bench()
    seen = Widget(metadata=META, status=WidgetStatus(conditions=condition("one")["conditions"]))
    bench.history.written(seen, condition("one"), bench.now, names_failure=False)
    bench.now += 4
    wanted = condition("quite another sentence")
    reworded = StatusPatch(wanted, interval=10, urgent=False)
    assert bench.history.decide(seen, reworded, wanted, bench.now, failing=False).wait == 6


def test_a_status_that_goes_to_and_fro_is_written_once_it_has_differed_for_a_while():
    bench = Bench()
    assert bench.decide({"children": 3}, settles=5).wait == 5
    bench.now += 4
    assert bench.decide({"children": 4}, settles=5).wait == 1, "what follows is written with it"
    bench.now += 1
    assert bench.decide({"children": 4}, settles=5).patch == {"children": 4}
    bench.write({"children": 4}, stored=4)
    assert bench.decide({"children": 5}, settles=5).wait == 5


def test_a_status_that_is_again_as_it_was_settles_anew():
    bench = Bench()
    bench.decide({"children": 3}, settles=5)
    bench.now += 4
    assert bench.decide({"children": 2}, settles=5) == StatusDecision()
    assert bench.decide({"children": 3}, settles=5).wait == 5


def test_a_record_is_not_held_back_by_a_status_that_settles():
    bench, records = Bench(), frozenset({"Turn"})
    turn = {"type": "Turn", "status": "True", "reason": "Next", "message": "group a"}
    told = condition("x")
    assert bench.decide(told, settles=5, records=records).wait == 5
    with_turn = {"conditions": [*told["conditions"], turn]}
    assert bench.decide(with_turn, settles=5, records=records).patch == with_turn
    assert bench.decide(with_turn, settles=5).wait == 5
    bench = Bench()
    bench.conditions = with_turn["conditions"]
    other = {"conditions": [*told["conditions"], {**turn, "message": "group b"}]}
    assert bench.decide(other, settles=5, records=records).patch
    assert bench.decide(told, settles=5, records=records).patch, "its end"
    words = {"conditions": [condition("y")["conditions"][0], turn]}
    assert bench.decide(words, settles=5, records=records).wait == 5


GENERATION_7 = ObjectMeta(name="f", namespace="default", generation=7)


class Counts(View, frozen=True):
    ready_replicas: int = 0


class Counted(KubeObject, frozen=True):
    status: Counts = Counts()


def allowed(
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


@pytest.mark.parametrize("sequence", [list, tuple])
def test_conditions_are_listed_without_what_is_none(sequence: Any):
    listed = sequence(["odd", allowed(), 3])
    assert [*conditions_in({"conditions": listed})] == [allowed()]


def test_conditions_of_odd_values_are_compared_like_others():
    odd: dict[str, Any] = {"type": ["a"], "status": {"b": 1}, "reason": [], "message": {}}
    wanted = conditions(allowed())
    assert keep_messages(conditions(odd), wanted) == wanted
    assert not changes_only_messages(conditions(odd), wanted)
    assert changes_only_messages(conditions(odd), conditions(odd), frozenset({"Allowed"}))


def test_a_message_that_differs_only_in_what_varies_is_kept():
    present = conditions(allowed(message="refused, request 101"))
    wanted = {**conditions(allowed(message="refused, request 102")), "children": 3}
    assert keep_messages(present, wanted) == {
        **conditions(allowed(message="refused, request 101")),
        "children": 3,
    }


@pytest.mark.parametrize(
    "before",
    [
        allowed(message="no quota, request 101"),
        allowed(type_="Other", message="refused, request 101"),
        allowed(status="True", message="refused, request 101"),
        allowed(reason="Denied", message="refused, request 101"),
    ],
)
def test_the_message_of_another_outcome_is_not_kept(before: dict[str, Any]):
    wanted = conditions(allowed(message="refused, request 102"))
    assert keep_messages(conditions(before), wanted) == wanted


def test_the_message_of_a_record_is_neither_kept_nor_only_words():
    present = conditions(allowed(message="group-1"), allowed("Ready", message="b 1"))
    wanted = conditions(allowed(message="group-2"), allowed("Ready", message="b 2"))
    records = frozenset({"Allowed"})
    kept = keep_messages(present, wanted, records)
    assert kept == conditions(allowed(message="group-2"), allowed("Ready", message="b 1"))
    assert not changes_only_messages(present, kept, records)
    assert changes_only_messages(present, wanted, frozenset({"Other"}))


def test_other_messages_of_the_same_conditions_change_only_messages():
    present = conditions(allowed(message="a"), allowed("Ready", message="b"))
    patch = conditions(allowed(message="c"), allowed("Ready", message="d"))
    assert changes_only_messages(present, patch)
    assert not changes_only_messages(present, {**patch, "children": 3})
    assert not changes_only_messages(present, {})


@pytest.mark.parametrize(
    "other", [allowed("Other"), allowed(status="True"), allowed(reason="Denied")]
)
def test_another_outcome_changes_more_than_messages(other: dict[str, Any]):
    assert not changes_only_messages(conditions(allowed()), conditions(other))


def test_an_error_is_said_in_ready_and_all_else_stays_as_it_was():
    present = {"conditions": [allowed(), "odd", allowed("Ready", "True")]}
    status = error_status(
        Widget(metadata=GENERATION_7, status=present),  # type: ignore[arg-type]
        "ReconcileError",
        "KeyError: 'a'",
        NOW,
    )
    assert status.wanted == conditions(
        allowed(),
        {
            **allowed("Ready", "False", "ReconcileError", "KeyError: 'a'"),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 7,
        },
    )


@pytest.mark.parametrize(
    ("present", "verdict", "generation"),
    [
        (allowed("Ready", "True", "Serves") | {"observedGeneration": 6}, ("True", "Serves"), 6),
        (allowed("Ready", "False", "Waits"), ("False", "Waits"), 7),
        ({"type": "Ready"}, ("False", "Initializing"), 7),
        (allowed(), ("False", "Initializing"), 7),
    ],
)
def test_an_error_is_said_in_the_message_where_the_reasons_are_of_another_api(
    present: dict[str, Any], verdict: tuple[str, str], generation: int
):
    widget: Any = Widget(metadata=GENERATION_7, status={"conditions": [present]})
    status = error_status(widget, "ReconcileError", "KeyError: 'a'", NOW, "Initializing")
    (ready,) = [each for each in status.wanted["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == verdict
    assert ready["message"] == "ReconcileError: KeyError: 'a'"
    assert ready["observedGeneration"] == generation


def test_a_message_that_is_cut_elsewhere_because_a_number_is_longer_says_the_same():
    text = "request {} failed: the server said no; it says so at length. "
    before, after = ((text * 100).replace("{}", number)[:4096] for number in ("7", "1234567"))
    present, wanted = (
        conditions(allowed(message=before)),
        conditions(allowed(message=after)),
    )
    assert keep_messages(present, wanted) == present


@pytest.mark.parametrize("other", ["other " * 1000, "word " * 500 + "other " * 1000, "x" * 5000])
def test_cut_messages_that_say_something_else_are_not_kept(other: str):
    present = conditions(allowed(message=("word " * 1000)[:4096]))
    wanted = conditions(allowed(message=other[:4096]))
    assert keep_messages(present, wanted) == wanted


def cut(text: str) -> dict[str, Any]:
    return allowed(message=(text + " and so on" * 500)[:4096])


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


def test_the_patch_holds_for_the_object_as_it_was_observed():
    event = Event("Normal", "Begun", "Begin", "The step has begun")
    made = status_commit(CONFIG_MAPS, child("a", 7).metadata, "step", {"phase": "Next"}, event)
    assert made == MergePatch(
        target("a", "step"),
        "uid-a",
        {"status": {"phase": "Next"}},
        subresource="status",
        resource_version="7",
        on_success=event,
    )
    assert status_commit(CONFIG_MAPS, child().metadata, "step", {}).on_success is None
