"""The decision whether a status is written now, later, or not at all."""

from __future__ import annotations

from typing import Any

from controller.kube.objects import ObjectMeta
from controller.runtime.plan import StatusPatch
from controller.runtime.reconcile.status import MESSAGE_INTERVAL, StatusDecision, StatusDecisions
from tests.runtime.widgets import Widget, WidgetStatus

META = ObjectMeta(name="f", namespace="default", uid="u")


class Bench:
    """Decisions about one widget, at the time `now`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.conditions: list[dict[str, Any]] = []
        self.decisions = StatusDecisions(lambda: self.now)

    def decide(self, wanted: dict[str, Any], *, failing: bool = False, **of: Any) -> StatusDecision:
        obj = widget(2, *self.conditions)
        return self.decisions.decide(obj, StatusPatch(wanted, **of), wanted, failing=failing)

    def write(self, wanted: dict[str, Any], *, stored: int, names_failure: bool = False) -> None:
        self.decisions.written(widget(stored), wanted, names_failure=names_failure)


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


def test_a_commit_of_the_status_counts_for_the_interval():
    bench = Bench()
    bench.decisions.committed("u")
    assert bench.decide({"children": 3}, interval=10, urgent=False).wait == 10


def test_what_the_server_pruned_is_not_written_again_until_another_definition_is_installed():
    bench = Bench()
    bench.write({"children": 2, "note": "x"}, stored=2)
    assert bench.decide({"children": 2, "note": "x"}) == StatusDecision()
    assert bench.decide({"children": 2, "note": "y"}).patch
    bench.decisions.forget_pruned_fields()
    assert bench.decide({"children": 2, "note": "x"}).patch


def test_other_words_for_a_named_failure_are_written_now_and_then():
    bench = Bench()
    seen = Widget(metadata=META, status=WidgetStatus(conditions=condition("one")["conditions"]))
    wanted = condition("quite another sentence")
    bench.decisions.written(seen, condition("one"), names_failure=True)
    bench.now += MESSAGE_INTERVAL - 1
    reworded = StatusPatch(wanted)
    assert bench.decisions.decide(seen, reworded, wanted, failing=True) == StatusDecision()
    bench.now += 1
    assert bench.decisions.decide(seen, reworded, wanted, failing=True).patch == wanted


def test_a_record_is_written_although_failures_have_been_named_just_now():
    bench = Bench()
    seen = Widget(metadata=META, status=WidgetStatus(conditions=condition("group-1")["conditions"]))
    wanted = condition("group-2")
    bench.decisions.written(seen, condition("group-1"), names_failure=True)
    told = StatusPatch(wanted, records=frozenset({wanted["conditions"][0]["type"]}))
    assert bench.decisions.decide(seen, told, wanted, failing=True).patch == wanted


def test_other_words_wait_for_the_interval_while_nothing_fails():
    bench = Bench()
    seen = Widget(metadata=META, status=WidgetStatus(conditions=condition("one")["conditions"]))
    bench.decisions.written(seen, condition("one"), names_failure=False)
    bench.now += 4
    wanted = condition("quite another sentence")
    reworded = StatusPatch(wanted, interval=10, urgent=False)
    assert bench.decisions.decide(seen, reworded, wanted, failing=False).wait == 6


def test_nothing_is_known_of_the_writes_of_an_object_that_has_ended():
    bench = Bench()
    bench.write({"children": 2}, stored=2)
    assert bench.decide({"children": 3}, interval=10, urgent=False).wait
    bench.decisions.forget("u")
    assert bench.decide({"children": 3}, interval=10, urgent=False).patch


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
