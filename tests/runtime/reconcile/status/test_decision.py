"""The decision whether a status is written now, later, or not at all."""

from __future__ import annotations

from typing import Any

from controller.kube.objects import ObjectMeta
from controller.runtime.plan import StatusPatch
from controller.runtime.reconcile.status import MESSAGE_INTERVAL, StatusDecision, StatusHistory
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
