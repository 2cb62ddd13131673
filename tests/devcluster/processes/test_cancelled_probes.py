"""A probe or hook that is cancelled ends, whatever happens in the same moment."""

from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from controller.devcluster.processes.container_process import ContainerProcess


class Command:
    """A command whose output closes when the test says so."""

    def __init__(self) -> None:
        self.closed = asyncio.get_running_loop().create_future()

    def send_signal(self, _number: int) -> None:
        """Have it end some time."""

    async def communicate(self) -> None:
        await asyncio.shield(self.closed)


@pytest.mark.parametrize("ticks", range(5))
async def test_a_cancellation_is_not_lost_while_the_command_that_is_killed_ends(ticks: int):
    run: Any = SimpleNamespace(_launch=SimpleNamespace(kill_signal=signal.SIGKILL))
    command: Any = Command()
    killing = asyncio.create_task(ContainerProcess.kill_other(run, command))
    await asyncio.sleep(0.1)
    command.closed.set_result(None)
    for _ in range(ticks):
        await asyncio.sleep(0)
    if killing.cancel():
        await asyncio.wait({killing})
        assert killing.cancelled()
