"""Sections of the debug page: bounded, whatever others have written into what they show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

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
    RunEntry,
)
from controller.runtime.metrics import LoopLag
from workqueue.metrics import FailingKey, RunningKey

VALUE = 'not "hunter"'


def test_durations_are_milliseconds_exact():
    assert sections.event_loop(LoopLag(0.12345, 2.0004)) == EventLoop(0.123, 2.0)
    assert sections.event_loop(None) == EventLoop(None, None)


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
    limits: list[int] = []

    def snapshot(limit: int) -> Any:
        limits.append(limit)
        return queue

    controller = SimpleNamespace(
        name="widgets",
        queue=SimpleNamespace(snapshot=snapshot),
        workers=SimpleNamespace(busy=5, released=6),
        errors=errors,
    )
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


def test_expectations_are_counted_and_listed():
    numbers = SimpleNamespace(owners=3, pending=4, unknown=5)
    entry = ExpectationEntry("pods default/a", ["widgets default/f"], "", "", 1.234, 2, "")
    entries = BoundedList(6, [entry])
    ledger = SimpleNamespace(statistics=lambda: numbers, snapshot=lambda: entries)
    found = sections.expectations(cast("Any", ledger))
    assert found == ExpectationsSection(owners=3, pending=4, unknown=5, entries=entries)


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
