"""`manta debug`: what the operator knows of an object, as text."""

from __future__ import annotations

import http.client
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO, TypeAlias, cast

import msgspec

from controller.command.output import CommandOutput, aligned
from controller.kube.errors import ConfigurationError
from controller.runtime.debug import BoundedList, ExpectationsSection, Leader, PageContent

# The debug page as tables: with headings in bold on a terminal, plain elsewhere.

_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\xa0-\uffff]+")
_UNITS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))
_Columns: TypeAlias = Mapping[str, str | Callable[[Any], object]]
"""Headings of a table, with the attribute that each column shows or a function of the item."""

_BACKING_OFF: Final[_Columns] = {
    "IN BACK-OFF": "key", "FAILURES": "failures", "FOR": "failing",
    "NEXT": lambda each: "runs" if each.next_run is None else each.next_run, "CAUSE": "cause",
}  # fmt: skip
_CONTROLLERS: Final[_Columns] = {
    "CONTROLLER": "name", "LENGTH": "length", "PROCESSING": "processing", "DIRTY": "dirty",
    "DELAYED": "delayed", "BACK-OFF": "backing_off", "WORKERS": "workers", "SLOW": "slow",
}  # fmt: skip
_EXPECTATIONS: Final[_Columns] = {
    "EXPECTATION": "object", "AWAITED": "awaited", "KEPT": "kept", "FOR": "age",
    "LIVE READS": "live_reads", "OWNERS": "owners", "CAUSE": "cause",
}  # fmt: skip
_INFORMERS: Final[_Columns] = {
    "INFORMER": "resource", "NAMESPACE": lambda each: each.namespace or "*", "OBJECTS": "objects",
    "STATE": "state", "REVISION": "revision", "BYTE": "last_byte", "EVENT": "last_event",
    "LIST": "last_list", "RELISTS": "relists", "CAUSE": "cause",
}  # fmt: skip
_PROBES: Final[_Columns] = {
    "DASHBOARD": "dashboard", "PROBE": "probe", "ANSWER": "answer", "ANSWERED": "answered",
    "CHANGED": "changed", "FAILURES": "failures", "OBJECTS": "objects", "CAUSE": "cause",
}  # fmt: skip


def page_text(page: PageContent, stream: TextIO, *, tasks: bool = False) -> str:
    """Return the page for this stream; lines are cut at the width of a terminal only."""
    output = CommandOutput(stream, as_json=False)
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    lines = [
        output.styled(_UNPRINTABLE.sub(" ", text)[:width].rstrip(), style)
        for text, style in _lines(page, tasks=tasks)
    ]
    return "\n".join([*lines, ""])


def _lines(page: PageContent, *, tasks: bool) -> Iterator[tuple[str, str]]:
    """Yield all lines with their styles, trouble first."""
    yield f"manta {page.version} at {page.time}, log level {page.log_level}", ""
    if page.leader is not None:
        yield _leader(page.leader), ""
    if (loop := page.event_loop) is not None:
        late = f"{_seconds(loop.lag)} late, {_seconds(loop.max_lag)} in the last minute"
        yield f"event loop: timers are {late}", ""
    yield from ((line, "") for line in _unreadable(page))
    controllers = _items(page.controllers)
    for each in controllers:
        yield from _table(_BACKING_OFF, each.backing_off)
    yield from ((line, "") for line in _ill(page))
    yield from _table(_CONTROLLERS, page.controllers)
    for each in controllers:
        yield from _table({"PROCESSING": "key", "FOR": "duration"}, each.processing)
    if (expectations := page.expectations) is not None:
        yield "", ""
        yield _expectations(expectations), ""
        yield from _table(_EXPECTATIONS, expectations.entries)
    yield from _table(_INFORMERS, page.informers)
    yield from _table(_PROBES, page.probes)
    if tasks:
        yield from _table({"TASKS": "name", "COUNT": "count", "PLACE": "place"}, page.tasks)


def _leader(leader: Leader) -> str:
    if leader.leads and leader.remaining is None:
        return "leads, without an election"
    state = f"leads for {_seconds(leader.remaining)} at least" if leader.leads else "stands by"
    holder = f"; the lease is held by {leader.holder}" if leader.holder else ""
    problem = f"; last attempt: {leader.problem}" if leader.problem else ""
    return f"{state}{holder}{problem}"


def _unreadable(page: PageContent) -> Iterator[str]:
    for name, error in page.unreadable.items():
        yield f"section {name} could not be read: {error}"


def _ill(page: PageContent) -> Iterator[str]:
    """Yield watches that do not run and dashboards that fail."""
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


def _expectations(found: ExpectationsSection) -> str:
    return (
        f"expectations: {found.entries.total} for {found.owners} objects, "
        f"{found.pending} pending, {found.unknown} of unknown outcome"
    )


def _items(shown: BoundedList[Any] | None) -> Sequence[Any]:
    return shown.items if shown is not None else ()


def _table(columns: _Columns, shown: BoundedList[Any] | None) -> Iterator[tuple[str, str]]:
    """Yield an empty line and the table; nothing if there is nothing to show."""
    if shown is None or not shown.total:
        return
    rows = [[_cell(item, column) for column in columns.values()] for item in shown.items]
    yield "", ""
    heading, *lines = aligned([list(columns), *rows])
    yield heading, "bold"
    yield from ((line, "") for line in lines)
    left = shown.total - len(shown.items)
    if left:
        odd = f", {shown.unreadable} of them unreadable" if shown.unreadable else ""
        yield f"and {left} more{odd}", ""


def _cell(item: Any, column: str | Callable[[Any], object]) -> str:
    value: Any = getattr(item, column) if isinstance(column, str) else column(item)
    match value:
        case float() | None:
            return _seconds(value)
        case list():
            return ", ".join(cast("list[str]", value)) or "-"
        case BoundedList():
            return str(cast("BoundedList[Any]", value).total)
        case _:
            return str(value) or "-"


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


def debug(port: int, output: str, *, tasks: bool = False) -> int:
    """Print the page of this port as `text` or `json`; returns the exit status.

    With `tasks` the text shows the tasks of asyncio, too.
    """
    try:
        body, page = page_of(port)
    except ConfigurationError as error:
        sys.stderr.write(f"manta debug: {error}\n")
        return 1
    if output == "json":
        sys.stdout.write(f"{msgspec.json.format(body, indent=2).decode()}\n")
    else:
        sys.stdout.write(page_text(page, sys.stdout, tasks=tasks))
    return 0


def page_of(port: int) -> tuple[bytes, PageContent]:
    """Return the page that an operator serves on this machine, as JSON and decoded.

    Raises:
        ConfigurationError: there is none; the message says what to do.
    """
    body = _fetch(port)
    try:
        return body, msgspec.json.decode(body, type=PageContent)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"what port {port} answers is no debug page of this version: {error}"
        ) from error


def _fetch(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
    try:
        connection.request("GET", "/debug")
        answer = connection.getresponse()
        body = answer.read(_LONGEST)
    except ConnectionError as error:
        raise ConfigurationError(
            f"nothing listens at port {port} of this machine. Start the operator with --debug-port="
            f"{port} (chart: debugPort), then reach its pod: kubectl -n NAMESPACE port-forward POD "
            f"{port}, or kubectl -n NAMESPACE exec POD -- manta debug --port={port}"
        ) from error
    except TimeoutError as error:
        raise ConfigurationError(
            f"whatever listens at port {port} did not answer for {_TIMEOUT:.0f} s. If it is the "
            "operator, its event loop is blocked: see how much of a processor it gets"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise ConfigurationError(
            f"port {port} of this machine: {type(error).__name__} {error}"
        ) from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise ConfigurationError(
            f"port {port} answers {answer.status}: it is not the operator's --debug-port"
        )
    return body
