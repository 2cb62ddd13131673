"""The tasks of the debug page: their names, and the line of ours at which they wait."""

from __future__ import annotations

import asyncio
import random
import types
from collections.abc import Coroutine, Generator
from typing import Any

from controller.runtime.debug_sections import tasks
from tests.workqueue.fakes import taken
from workqueue import WorkQueue


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


async def test_a_task_without_a_name_has_that_of_its_function():
    event = asyncio.Event()
    seen = await shown(asyncio.create_task(outer(event)))
    assert seen["outer"][1] == 1


async def test_what_waits_in_a_context_manager_stands_where_it_is_entered():
    queue: WorkQueue[str] = WorkQueue(clock=asyncio.get_running_loop(), rng=random.Random(1))

    async def work() -> None:
        async with taken(queue):
            pass

    seen = await shown(asyncio.create_task(work(), name="worker"))
    assert seen["worker"][0].startswith(f"{__name__}.")


@types.coroutine
def pause() -> Generator[None]:
    yield


@types.coroutine
def pauses() -> Generator[None]:
    while True:
        yield from pause()


async def test_what_waits_in_generators_stands_in_the_innermost_one():
    async def waits() -> None:
        await pauses()

    seen = await shown(asyncio.create_task(waits(), name="paused"))
    assert seen["paused"][0].startswith(f"{__name__}.pause:")


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


async def test_code_without_a_module_stands_in_an_unknown_one():
    scope: dict[str, Any] = {"__builtins__": {}}
    exec("async def bare(event):\n    await event.wait()", scope)
    seen = await shown(asyncio.create_task(scope["bare"](asyncio.Event()), name="bare"))
    assert seen["bare"][0] == "?.bare:2"


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
