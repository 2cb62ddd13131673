"""`manta debug`: what the operator knows of an object, as text."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TextIO

import msgspec

from controller.kube.errors import ConfigurationError
from controller.runtime.debug import BoundedList, PageContent

# The debug page as tables: with headings in bold on a terminal, plain elsewhere.

_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\xa0-\uffff]+")
_GAP: Final = "   "
_UNITS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))


def page_text(page: PageContent, stream: TextIO, *, tasks: bool = False) -> str:
    """Return the page for this stream; lines are cut at the width of a terminal only.

    Args:
        page: the page.
        stream: where it is printed.
        tasks: whether to show the tasks of asyncio.
    """
    bold = stream.isatty() and "NO_COLOR" not in os.environ
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    lines: list[str] = []
    for line in _lines(page, tasks=tasks):
        heading = line.startswith("#")
        text = _UNPRINTABLE.sub(" ", line.removeprefix("#"))[:width].rstrip()
        lines.append(f"\x1b[1m{text}\x1b[0m" if heading and bold else text)
    return "\n".join([*lines, ""])


def _lines(page: PageContent, *, tasks: bool) -> Iterator[str]:
    """Yield all lines, trouble first; headings begin with `#`."""
    yield f"manta {page.version} at {page.time}, log level {page.log_level}"
    if page.leader is not None:
        yield _leader(page)
    if page.event_loop is not None:
        lag, longest = page.event_loop.lag, page.event_loop.max_lag
        yield f"event loop: timers are {_seconds(lag)} late, {_seconds(longest)} in the last minute"
    yield from _trouble(page)
    yield from _controllers(page)
    yield from _expectations(page)
    yield from _informers(page)
    yield from _probes(page)
    if tasks:
        yield from _tasks(page)


def _leader(page: PageContent) -> str:
    assert page.leader is not None
    leader = page.leader
    if leader.leads and leader.remaining is None:
        return "leads, without an election"
    state = f"leads for {_seconds(leader.remaining)} at least" if leader.leads else "stands by"
    holder = f"; the lease is held by {leader.holder}" if leader.holder else ""
    problem = f"; last attempt: {leader.problem}" if leader.problem else ""
    return f"{state}{holder}{problem}"


def _trouble(page: PageContent) -> Iterator[str]:
    """Yield what is amiss: objects in back-off, watches that do not run, dashboards that fail."""
    for name, error in page.unreadable.items():
        yield f"section {name} could not be read: {error}"
    for controller in page.controllers.items if page.controllers else ():
        yield from _table(
            "IN BACK-OFF|FAILURES|FOR|NEXT|CAUSE",
            controller.backing_off,
            lambda each: (
                each.key,
                each.failures,
                _seconds(each.failing),
                "runs" if each.next_run is None else _seconds(each.next_run),
                each.cause,
            ),
        )
    silent = [each for each in _items(page.informers) if each.state != "Watching"]
    failing = [each for each in _items(page.probes) if each.failures]
    if silent:
        yield ""
        yield from (f"not watched: {e.resource} ({e.state}): {e.cause or '-'}" for e in silent)
    if failing:
        yield ""
        yield from (
            f"fails: {e.probe} of {e.dashboard}, {e.failures} times: {e.cause or '-'}"
            for e in failing
        )


def _items(shown: BoundedList[Any] | None) -> Sequence[Any]:
    return shown.items if shown is not None else ()


def _controllers(page: PageContent) -> Iterator[str]:
    shown = page.controllers
    if shown is None:
        return
    yield from _table(
        "CONTROLLER|LENGTH|PROCESSING|DIRTY|DELAYED|BACK-OFF|WORKERS|SLOW",
        shown,
        lambda c: (
            (
                c.name,
                c.length,
                c.processing.total,
                c.dirty,
                c.delayed,
                c.backing_off.total,
                c.workers,
                c.slow,
            )
        ),
    )
    for controller in shown.items:
        yield from _table(
            "PROCESSING|FOR",
            controller.processing,
            lambda each: (each.key, _seconds(each.duration)),
        )


def _expectations(page: PageContent) -> Iterator[str]:
    expectations = page.expectations
    if expectations is None:
        return
    yield ""
    yield (
        f"expectations: {expectations.entries.total} for {expectations.owners} objects, "
        f"{expectations.pending} pending, {expectations.unknown} of unknown outcome"
    )
    yield from _table(
        "EXPECTATION|AWAITED|KEPT|FOR|LIVE READS|OWNERS|CAUSE",
        expectations.entries,
        lambda each: (
            (
                each.object,
                each.awaited,
                each.kept,
                _seconds(each.age),
                each.live_reads,
                ", ".join(each.owners),
                each.cause,
            )
        ),
    )


def _informers(page: PageContent) -> Iterator[str]:
    yield from _table(
        "INFORMER|NAMESPACE|OBJECTS|STATE|REVISION|BYTE|EVENT|LIST|RELISTS|CAUSE",
        page.informers,
        lambda each: (
            (
                each.resource,
                each.namespace or "*",
                each.objects,
                each.state,
                each.revision,
                _seconds(each.last_byte),
                _seconds(each.last_event),
                _seconds(each.last_list),
                each.relists,
                each.cause,
            )
        ),
    )


def _probes(page: PageContent) -> Iterator[str]:
    yield from _table(
        "DASHBOARD|PROBE|ANSWER|ANSWERED|CHANGED|FAILURES|OBJECTS|CAUSE",
        page.probes,
        lambda each: (
            (
                each.dashboard,
                each.probe,
                each.answer,
                _seconds(each.answered),
                _seconds(each.changed),
                each.failures,
                ", ".join(each.objects),
                each.cause,
            )
        ),
    )


def _tasks(page: PageContent) -> Iterator[str]:
    yield from _table(
        "TASKS|COUNT|PLACE", page.tasks, lambda each: (each.name, each.count, each.place)
    )


def _table(
    heading: str, shown: BoundedList[Any] | None, cells: Callable[[Any], Sequence[object]]
) -> Iterator[str]:
    """Yield an empty line and the table; nothing if there is nothing to show."""
    if shown is None or not shown.total:
        return
    names = heading.split("|")
    rows = [names, *([str(cell) or "-" for cell in cells(item)] for item in shown.items)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield ""
    for number, row in enumerate(rows):
        line = _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield line.rstrip() if number else f"#{line.rstrip()}"
    left = shown.total - len(shown.items)
    if left:
        odd = f", {shown.unreadable} of them unreadable" if shown.unreadable else ""
        yield f"and {left} more{odd}"


def _seconds(seconds: float | None) -> str:
    """Return `12 ms`, `3.2 s`, `5.0 m`; `-` for never."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    for length, unit in _UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


# Fetches the debug page from this machine and prints it.

_TIMEOUT: Final = 10.0
"""Seconds. A process whose event loop is blocked for longer does not answer."""

_LONGEST: Final = 16 * 1024 * 1024
"""Maximum bytes of an answer to read; a page is far shorter."""


class _NoPageError(Exception):
    """There is no page to print; the message says what to do."""


def debug(port: int, output: str, *, tasks: bool = False) -> int:
    """Print the page; returns the exit status.

    Args:
        port: port of the page, on this machine.
        output: `text` or `json`.
        tasks: whether the text shows the tasks of asyncio.
    """
    try:
        body = _fetch(port)
        page = _decode(body, port)
    except _NoPageError as error:
        sys.stderr.write(f"manta debug: {error}\n")
        return 1
    if output == "json":
        sys.stdout.write(f"{msgspec.json.format(body, indent=2).decode()}\n")
    else:
        sys.stdout.write(page_text(page, sys.stdout, tasks=tasks))
    return 0


def page_of(port: int) -> bytes:
    """Return the page that an operator serves on this machine, as JSON.

    Raises:
        ConfigurationError: there is none; the message says what to do.
    """
    try:
        body = _fetch(port)
        _decode(body, port)
    except _NoPageError as error:
        raise ConfigurationError(str(error)) from error
    return body


def _fetch(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
    try:
        connection.request("GET", "/debug")
        answer = connection.getresponse()
        body = answer.read(_LONGEST)
    except ConnectionError as error:
        raise _NoPageError(
            f"nothing listens at port {port} of this machine. Start the operator with --debug-port="
            f"{port} (chart: debugPort), then reach its pod: kubectl -n NAMESPACE port-forward POD "
            f"{port}, or kubectl -n NAMESPACE exec POD -- manta debug --port={port}"
        ) from error
    except TimeoutError as error:
        raise _NoPageError(
            f"whatever listens at port {port} did not answer for {_TIMEOUT:.0f} s. If it is the "
            "operator, its event loop is blocked: see how much of a processor it gets"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise _NoPageError(
            f"port {port} of this machine: {type(error).__name__} {error}"
        ) from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise _NoPageError(
            f"port {port} answers {answer.status}: it is not the operator's --debug-port"
        )
    return body


def _decode(body: bytes, port: int) -> PageContent:
    try:
        return msgspec.json.decode(body, type=PageContent)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _NoPageError(
            f"what port {port} answers is no debug page of this version: {error}"
        ) from error
