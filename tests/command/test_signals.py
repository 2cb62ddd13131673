"""The process of an operator: its event loop, and being told to stop at any moment."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from controller.command.process import INTERRUPTED, interruptible, run_operator, unless_stopped


async def test_work_that_ends_before_a_stop_gives_its_result():
    stop = asyncio.Event()

    async def work() -> str:
        await asyncio.sleep(1)
        return "done"

    assert await unless_stopped(stop, work()) == "done"


async def test_a_stop_cancels_work_and_waits_until_it_has_cleaned_up():
    stop, cleaned = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            cleaned.set()
        return "never"

    asyncio.get_running_loop().call_later(1, stop.set)
    assert await unless_stopped(stop, work()) is None
    assert cleaned.is_set()


@pytest.mark.real_time
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_cancels_what_is_watched_and_lets_it_clean_up(number: signal.Signals):
    cleaned = asyncio.Event()

    async def work() -> int:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return 0

    assert await interruptible(work()) == INTERRUPTED
    assert cleaned.is_set()


ALONE = ("unshare", "--map-root-user", "--pid", "--fork", "--kill-child")
READY = "import time; print('ready', flush=True); time.sleep(100)"


def namespaces_work() -> bool:
    """Whether this machine lets a process be the first of its own namespace."""
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not namespaces_work(), reason="SKIP: processes get no namespaces of their own")
def test_the_first_process_of_a_container_can_be_ended_while_it_loads_its_modules():
    code = f"import controller.command; {READY}"
    with subprocess.Popen([*ALONE, sys.executable, "-c", code], stdout=subprocess.PIPE) as outer:
        try:
            assert outer.stdout
            assert outer.stdout.readline() == b"ready\n"
            children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()
            os.kill(int(children), signal.SIGTERM)
            assert outer.wait(60) == 128 + signal.SIGTERM
        finally:
            outer.kill()


def test_other_processes_keep_what_the_system_does_with_the_signal():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


class UvloopsLoop(asyncio.SelectorEventLoop):
    """Stands in for uvloop's, which the tests do without."""


async def loop_in_use() -> type[asyncio.AbstractEventLoop]:
    return type(asyncio.get_running_loop())


def test_where_uvloop_is_installed_it_is_used(monkeypatch: pytest.MonkeyPatch):
    uvloop = ModuleType("uvloop")
    uvloop.new_event_loop = UvloopsLoop  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "uvloop", uvloop)
    assert run_operator(loop_in_use()) is UvloopsLoop


def test_without_uvloop_the_loop_is_asyncios(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_operator(loop_in_use()) is asyncio.SelectorEventLoop
