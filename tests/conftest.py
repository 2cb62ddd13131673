"""Shared by all tests: virtual time unless a test asks for the real one."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every coroutine test in virtual time, save those that need the real one."""
    against_real_server = "MANTA_TEST_KUBECONFIG" in os.environ
    if against_real_server or item.get_closest_marker("real_time"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests of each layer ran: a layer is a folder of `tests`."""
    ran = Counter(
        Path(report.nodeid.partition("::")[0]).parts[1]
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if report.nodeid.startswith("tests/")
    )
    terminalreporter.section("tests by layer")
    for layer, count in sorted(ran.items()):
        terminalreporter.write_line(f"{layer:<16}{count:>6}")
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "told":
                terminalreporter.write_line(value)
