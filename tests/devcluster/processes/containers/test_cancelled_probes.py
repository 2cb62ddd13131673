"""A probe or hook that is cancelled ends, whatever happens in the same moment."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devcluster.processes.container_process import ContainerProcess
from devcluster.processes.output import Output
from tests.devcluster.processes.plain import PlainRoom


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


@pytest.mark.real_time
async def test_a_cancelled_probe_ends_what_its_command_has_started_even_if_that_has_ended_first(
    tmp_path: Path,
):
    room: Any = PlainRoom(tmp_path, "", {"PATH": os.defpath}, ())
    output = Output(lambda: datetime.now(UTC))
    container = await ContainerProcess.start(room, ["sleep", "1000"], output)
    script = f"sleep 1000 & echo $! $$ >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/made; wait"
    probe = asyncio.create_task(container.exec(["sh", "-c", script], None))
    await becomes((tmp_path / "made").exists)
    child, command = map(int, (tmp_path / "made").read_text().split())
    os.kill(command, signal.SIGKILL)
    await becomes(lambda: is_gone(command))
    probe.cancel()
    await asyncio.wait({probe})
    assert probe.cancelled()
    await becomes(lambda: is_gone(child))
    await container.kill()
    output.close()


async def becomes(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(condition)


def is_gone(pid: int) -> bool:
    """Whether the process has ended; a zombie has, too, that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
