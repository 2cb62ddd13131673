"""Sections of the debug page: bounded lists, and tasks with the line at which they wait."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.runtime import operator
from controller.runtime.debug import (
    LIMIT,
    BackingOffKey,
    BoundedList,
    ControllerEntry,
    InformerEntry,
    RunEntry,
    cause,
    listing,
    tasks,
)
from tests.workqueue.fakes import taken
from workqueue import WorkQueue
from workqueue.queue import FailingKey, RunningKey

VALUE = 'not "hunter"'


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
    assert operator._entry_of(cast("Any", controller)) == ControllerEntry(
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
    assert limits == [LIMIT]


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
    listed = operator._informers(
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


def run(number: int) -> RunEntry:
    return RunEntry(f"default/{number}", float(number))


def test_a_list_is_cut_and_says_how_many_there_are():
    shown = listing(range(LIMIT + 5), run, rank=lambda item: -item.duration)
    assert shown.total == LIMIT + 5
    assert [item.duration for item in shown.items] == list(range(LIMIT + 4, 4, -1))
    assert listing(range(3), run, total=7).total == 7


def test_objects_that_cannot_be_described_cost_only_themselves():
    def describe(number: int) -> RunEntry:
        return RunEntry("default/a", 1 / number)

    shown = listing([1, 0, 2, 0], describe)
    assert ([item.duration for item in shown.items], shown.unreadable) == ([1.0, 0.5], 2)
    assert shown.total == 4


def test_an_object_that_cannot_be_written_costs_only_itself():
    shown = listing(["a", "\ud800", "b"], lambda key: RunEntry(key, 0.0))
    assert ([item.key for item in shown.items], shown.unreadable) == (["a", "b"], 1)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Conflict: the object has been modified", "Conflict: the object has been modified"),
        ('pods "a" is forbidden: exceeded quota', 'pods "" is forbidden: exceeded quota'),
        ('spec.env: Invalid value: "hunter2": no', 'spec.env: Invalid value: "": no'),
        ('Invalid value: "hun\\"ter2": no', 'Invalid value: "": no'),
        ("spec: Invalid value: {Env:[{A hunter2}]}: no", "spec: Invalid value: ..."),
        ("{Name:KEY Value:hunter ValueFrom:nil}", "{..."),
        ("no: Name:KEY Value:hunter", "no: Name:KEY Value:..."),
        ("spec: no, given map[KEY:hunter]", "spec: no, given map[..."),
        ("PASSWORD=hunter is no password", "PASSWORD=..."),
        ('PASSWORD="hunter" is none', 'PASSWORD="" is none'),
        ('webhook "a" denied the request: not hunter', 'webhook "" denied the request: ...'),
        ("GET /api/jobs/: HTTP 500: KEY hunter", "GET /api/jobs/: HTTP #: ..."),
        ('cut off: "hunter2', 'cut off: ""'),
        ("ValueError: invalid literal: 'hunter2'", 'ValueError: invalid literal: ""'),
        ("value `hunter2` is odd", 'value "" is odd'),
        ("it doesn't answer, and isn't there", "it doesn't answer, and isn't there"),
        ("one\nline\x1b[31m", "one line [#"),
        ("after 17 s at 10.0.0.1:6443", "after # s at #"),
        ("x " * 100, "x " * 100),
        ("x " * 150, "x " * 100 + "..."),
    ],
)
def test_a_cause_quotes_nothing_that_a_user_may_have_written(message: str, shown: str):
    assert cause(message) == shown


async def wait(event: asyncio.Event) -> None:
    await event.wait()


async def outer(event: asyncio.Event) -> None:
    await wait(event)


async def shown(*running: asyncio.Task[Any]) -> dict[str, tuple[str, int]]:
    await asyncio.sleep(0)
    groups = tasks().items
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return {group.name: (group.place, group.count) for group in groups}


async def test_equal_tasks_are_one_line_with_the_innermost_place_of_ours():
    event = asyncio.Event()
    seen = await shown(*(asyncio.create_task(outer(event), name="waiter") for _ in range(3)))
    line = wait.__code__.co_firstlineno + 1
    assert seen["waiter"] == (f"{__name__}.wait:{line}", 3)


async def test_what_waits_in_a_context_manager_stands_where_it_is_entered():
    queue: WorkQueue[str] = WorkQueue(clock=asyncio.get_running_loop(), rng=random.Random(1))

    async def work() -> None:
        async with taken(queue):
            pass

    seen = await shown(asyncio.create_task(work(), name="worker"))
    assert seen["worker"][0].startswith(f"{__name__}.")


class Frameless(Coroutine[Any, Any, None]):
    """A coroutine that some library has written in C: it has neither a name nor a frame."""

    def send(self, value: Any) -> None:
        del value

    def throw(self, *error: Any) -> None:
        raise error[0]

    def __await__(self) -> Generator[Any, Any, None]:
        yield


async def test_a_nameless_task_without_a_frame_keeps_the_name_that_it_got():
    task = asyncio.get_running_loop().create_task(Frameless())
    assert (await shown(task))[task.get_name()] == ("?", 1)


class Odd(asyncio.Task[None]):
    """A task that does not tell its name."""

    def get_name(self) -> str:
        raise RuntimeError("no name")


async def test_an_odd_task_costs_only_itself():
    event = asyncio.Event()
    odd = Odd(outer(event), loop=asyncio.get_running_loop())
    seen = await shown(odd, asyncio.create_task(outer(event), name="even"))
    assert seen["?"] == ("?", 1)
    assert seen["even"][1] == 1
