"""The control plane of a process that runs tests: started before them, and its logs shown."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lab.control_plane import control_plane
from tests.lab.running import tail
from tests.lab.session import PLANES, own_kubeconfig

WORKER = "PYTEST_XDIST_WORKER"
RUNNING = pytest.StashKey[ExitStack]()
BEGAN = pytest.StashKey[dict[Path, int]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("dist", "no") != "no":
        return
    session.stash[RUNNING] = ExitStack()
    folder = Path(own_kubeconfig()).parent
    folder.mkdir(parents=True)
    began = time.monotonic()
    session.stash[RUNNING].enter_context(control_plane(folder))
    (folder / "seconds").write_text(f"{time.monotonic() - began}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if RUNNING in session.stash:
        session.stash[RUNNING].close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Say what the control planes took, and where they are if a test failed."""
    if WORKER in os.environ:  # others still run
        return
    folder = Path(os.environ[PLANES])
    starts = [float(path.read_text()) for path in folder.glob("*/seconds")]
    terminalreporter.section("real control planes")
    terminalreporter.write_line(
        f"{len(starts)} were started, in {max(starts, default=0):.0f} s at most"
    )
    if exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(folder)
        return
    for database in folder.glob("*/etcd"):
        shutil.rmtree(database)
    terminalreporter.write_line(f"their logs: {folder}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEGAN] = {log: log.stat().st_size for log in _logs()}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the programs have logged since the test began."""
    report = yield
    if report.failed:
        began = item.stash.get(BEGAN, {})
        for log in _logs():
            if text := tail(log, began.get(log, 0)):
                report.sections.append((f"{log.stem} ({log})", text))
    return report


def _logs() -> list[Path]:
    return sorted(
        log for log in Path(own_kubeconfig()).parent.glob("*.log") if log.name != "audit.log"
    )
