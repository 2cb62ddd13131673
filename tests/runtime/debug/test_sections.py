"""Sections of the debug page: bounded, whatever others have written into what they show."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.runtime import debug_sections as sections
from controller.runtime.debug import (
    LIMIT,
    BackingOffKey,
    BoundedList,
    ControllerEntry,
    EventLoop,
    ExpectationEntry,
    ExpectationsSection,
    InformerEntry,
    Leader,
    RunEntry,
)
from controller.runtime.election import ElectionSnapshot
from controller.runtime.expectations.owners import Owner
from controller.runtime.expectations.reader import ExpectationSnapshot
from controller.runtime.metrics import LoopLag
from workqueue.metrics import FailingKey, RunningKey

HUGE = "x" * 1_000_000
VALUE = 'not "hunter"'


def shown(entry: ExpectationSnapshot) -> Any:
    """How the section shows expectations that are full of this entry."""

    def snapshot(limit: int) -> list[ExpectationSnapshot]:
        return [entry] * limit

    numbers = SimpleNamespace(owners=1, pending=1, unknown=0, expectations=1000)
    expectations = SimpleNamespace(statistics=lambda: numbers, snapshot=snapshot)
    return sections.expectations(cast("Any", expectations)).entries


def entry(*owners: Owner, kept: str = "", error: str = "") -> ExpectationSnapshot:
    return ExpectationSnapshot("pods default/a", owners, "", kept, 1.0, 0, error)


def test_a_lease_is_shown_shortly_and_without_what_its_error_quotes():
    seen = ElectionSnapshot(leads=False, time_left=0.0, holder=HUGE, problem=VALUE)
    leader = sections.leader(seen)
    assert (len(leader.holder), leader.problem) == (253, 'not ""')


def test_expectations_are_as_many_as_a_list_holds_with_as_many_owners():
    owners = [Owner(str(each), f"default/{each}", "c") for each in range(1000)]
    listed = shown(entry(*owners))
    assert (listed.total, len(listed.items)) == (1000, LIMIT)
    assert len(listed.items[0].owners) == LIMIT


def test_an_expectation_quotes_no_value():
    (item, *_) = shown(entry(kept=VALUE, error=VALUE)).items
    assert (item.kept, item.cause) == ('not ""', 'not ""')


def test_durations_are_milliseconds_exact():
    assert sections.event_loop(LoopLag(0.12345, 2.0004)) == EventLoop(0.123, 2.0)
    assert sections.event_loop(None) == EventLoop(None, None)


@pytest.mark.parametrize(("left", "remaining"), [(9.8765, 9.877), (0.0, 0.0), (math.inf, None)])
def test_a_leader_has_a_remaining_time_if_it_has_a_lease(left: float, remaining: float | None):
    seen = ElectionSnapshot(leads=True, time_left=left, holder="pod-0", problem="none")
    assert sections.leader(seen) == Leader(True, remaining, "pod-0", "none")


def test_a_controller_shows_its_queue_its_runs_and_the_cause_of_each_failure():
    numbers = SimpleNamespace(ready=1, dirty={0: 2, -10: 3}, delayed=4, processing=7, failing=8)
    queue = SimpleNamespace(
        statistics=numbers,
        running=(RunningKey("default/a", 1.23456),),
        failing=(
            FailingKey("default/b", 3, 60.12345, None),
            FailingKey("default/c", 1, 2.0, 0.98765),
        ),
    )
    errors = {"default/b": VALUE}
    seen = SimpleNamespace(queue=queue, workers=5, slow=6, errors=errors)
    limits: list[int] = []

    def snapshot(limit: int) -> Any:
        limits.append(limit)
        return seen

    controller = SimpleNamespace(name="widgets", snapshot=snapshot)
    assert sections.controllers([cast("Any", controller)]) == BoundedList(
        1,
        [
            ControllerEntry(
                name="widgets",
                length=1,
                dirty=5,
                delayed=4,
                workers=5,
                slow=6,
                processing=BoundedList(7, [RunEntry("default/a", 1.235)]),
                backing_off=BoundedList(
                    8,
                    [
                        BackingOffKey("default/b", 3, 60.123, None, 'not ""'),
                        BackingOffKey("default/c", 1, 2.0, 0.988, ""),
                    ],
                ),
            )
        ],
    )
    assert limits == [LIMIT]


def test_expectations_show_what_is_awaited_for_whom_and_since_when():
    owner = Owner("uid", "default/f", "widgets")
    one = ExpectationSnapshot("pods default/a", (owner,), "cache shows write", "", 1.2345, 2, "")
    numbers = SimpleNamespace(owners=3, pending=4, unknown=5, expectations=6)
    ledger = SimpleNamespace(statistics=lambda: numbers, snapshot=lambda _limit: [one])
    assert sections.expectations(cast("Any", ledger)) == ExpectationsSection(
        owners=3,
        pending=4,
        unknown=5,
        entries=BoundedList(
            6,
            [
                ExpectationEntry(
                    object="pods default/a",
                    owners=["widgets default/f"],
                    awaited="cache shows write",
                    kept="",
                    age=1.234,
                    live_reads=2,
                    cause="",
                )
            ],
        ),
    )


def informer(name: str, last_byte: float | None) -> Any:
    statistics = SimpleNamespace(
        objects=3,
        quarantined=1,
        resource_version="42",
        state="Watching",
        connected=True,
        last_byte=last_byte,
        last_event=90.0,
        last_list=50.0,
        relists={"expired": 1, "rewound": 2},
        last_error=VALUE,
    )
    scope = SimpleNamespace(resource=name, namespace="default", label_selector="widget")
    return SimpleNamespace(scope=scope, informer=SimpleNamespace(statistics=lambda: statistics))


def test_the_informer_that_has_been_silent_for_longest_comes_first():
    listed = sections.informers(
        [informer("pods", 99.0), informer("nodes", None), informer("secrets", 98.7654)], 100.0
    )
    assert [item.resource for item in listed.items] == ["nodes", "secrets", "pods"]
    assert listed.items[1] == InformerEntry(
        resource="secrets",
        namespace="default",
        selector="widget",
        objects=3,
        undecodable=1,
        revision="42",
        state="Watching",
        connected=True,
        last_byte=1.235,
        last_event=10.0,
        last_list=50.0,
        relists=3,
        cause='not ""',
    )
