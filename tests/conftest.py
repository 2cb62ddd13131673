"""Shared by all tests: virtual time unless a test asks for the real one, and the summary."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from zlib import crc32

import pytest
import structlog
from hypothesis import settings

from tests import messages
from tests.lab.session import own_kubeconfig
from tests.neighbours.report import print_table

pytest_plugins = ["controller.testing.plugin", "pytester"]

LEFT_OUT = pytest.StashKey[int]()
LEFT_BY = {"not slow": "slow", "slow and not rare": "rare"}
"""The markers of tests that the expressions of the Makefile leave out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that list messages, and that divide tests between runs."""
    parser.addoption("--messages", metavar="FILE", help="write all messages to a file")
    parser.addoption("--part", default="1/1", metavar="N/M", help="run the N-th of M equal parts")


def pytest_configure(config: pytest.Config) -> None:
    """Log exceptions without the variables of each frame, and time no example of a random test.

    structlog shows them by itself, and to print one takes longer than most tests. Hypothesis fails
    an example that takes 200 ms, as any may on a busy machine.
    """
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")
    messages.watch()
    console = structlog.dev.ConsoleRenderer.get_active()
    console.exception_formatter = structlog.dev.plain_traceback
    if own_kubeconfig():
        config.pluginmanager.import_plugin("tests.lab.plugin")


@pytest.hookimpl(tryfirst=True)
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]] | None:
    """Run every coroutine test in real time on a real API server; else the plugin decides."""
    return {"real": asyncio.new_event_loop} if own_kubeconfig() else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is meant for the other kind of API server, or for another part; sort the rest.

    Slow tests are first, and those that may take longest: the short ones fill gaps. The part of a
    test follows from its name, so that neighbours in a file, which cost alike, are divided.
    """
    elsewhere = "embedded_only" if own_kubeconfig() else "real_only"
    part, parts = map(int, config.getoption("--part").split("/"))
    if left_out := [
        item
        for item in items
        if item.get_closest_marker(elsewhere) or crc32(item.nodeid.encode()) % parts != part - 1
    ]:
        config.hook.pytest_deselected(items=left_out)
        others = set(left_out)
        items[:] = [item for item in items if item not in others]
    items.sort(key=lambda item: (item.get_closest_marker("slow") is None, -_time_limit(item)))


def _time_limit(item: pytest.Item) -> float:
    """Seconds that the test may take by its mark; 0 if it has none."""
    mark = item.get_closest_marker("timeout")
    return mark.args[0] if mark else 0.0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected: nothing of it can be freed."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Spare the garbage collector the tests themselves, and let it run less often.

    It takes a tenth of the time of simulated worlds otherwise.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 50, 20)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the tests that `make test` and `make test-all REST=1` leave for later."""
    for item in items:
        left = LEFT_BY.get(item.config.option.markexpr)
        if left is not None and item.get_closest_marker(left):
            item.config.stash[LEFT_OUT] = item.config.stash.get(LEFT_OUT, 0) + 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the count of a worker to the process that prints the summary; list the messages."""
    if path := session.config.getoption("--messages"):
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")
        Path(f"{path}{worker}").write_text(messages.table())
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: pytest.Session) -> None:
    """Take the count of a worker; every worker collects all tests."""
    if workeroutput := getattr(node, "workeroutput", None):  # none of a worker that crashed
        node.config.stash[LEFT_OUT] = workeroutput["left_out"]


@pytest.fixture(autouse=True)
def sound_messages(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that makes a message with a mechanical fault, such as a colon at its end."""
    yield
    found, item = messages.take_faults(), request.node
    is_random = item.get_closest_marker("hypothesis") or "/test_any_" in item.nodeid
    if item.nodeid.startswith(messages.CHECKED) and not is_random:
        assert not found, "\n".join(found)


@pytest.fixture
def silence() -> Iterator[None]:
    """Log nothing meanwhile: nobody reads what hundreds of lives have to say."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    structlog.reset_defaults()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the time of each layer, what was skipped and why, and how much was left out."""
    _layers(terminalreporter)
    _skipped(terminalreporter)
    _notes(terminalreporter)
    print_table(terminalreporter)
    if left_out := terminalreporter.config.stash.get(LEFT_OUT, 0):
        terminalreporter.section("slow tests")
        terminalreporter.write_line(f"left for `make test-all`: {left_out}")


def _layers(terminalreporter: pytest.TerminalReporter) -> None:
    """Print tests and seconds of each folder of `tests`; seconds of all processes added up."""
    tests: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport) or not report.nodeid.startswith("tests/"):
                continue
            layer = Path(report.nodeid.partition("::")[0]).parts[1]
            seconds[layer] += report.duration
            tests[layer] += report.when == "call" and not report.skipped
    terminalreporter.section("tests by layer")
    terminalreporter.write_line(f"{'':<16}{'tests':>8}{'seconds':>10}")
    for layer in sorted(seconds):
        terminalreporter.write_line(f"{layer:<16}{tests[layer]:>8}{seconds[layer]:>10.1f}")


def _skipped(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for each reason."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
    )
    if reasons:
        terminalreporter.section("skipped, not passed")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count:>6}  {reason}")


def _notes(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded for whoever reads the summary."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "told":
                terminalreporter.write_line(value)
