"""`manta debug` as people see it."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest

from controller.command.debug import page_text
from controller.runtime.debug import (
    BackingOffKey,
    BoundedList,
    ControllerEntry,
    EventLoop,
    ExpectationEntry,
    ExpectationsSection,
    InformerEntry,
    Leader,
    PageContent,
    ProbeEntry,
    RunEntry,
    TaskGroup,
)

PAGE = PageContent(
    version="0.1.0",
    time="2026-11-23T12:00:00Z",
    log_level="info",
    leader=Leader(True, 8.25, "pod-a", "refused"),
    event_loop=EventLoop(0.0004, 2.5),
    controllers=BoundedList(
        1,
        [
            ControllerEntry(
                name="raycluster-controller",
                length=4,
                dirty=5,
                delayed=6,
                workers=1,
                slow=0,
                processing=BoundedList(1, [RunEntry("default/busy", 0.25)]),
                backing_off=BoundedList(
                    7, [BackingOffKey("default/bad", 3, 130.0, 4.5, "exceeded quota")], 1
                ),
            )
        ],
    ),
    expectations=ExpectationsSection(
        2,
        1,
        0,
        BoundedList(
            1,
            [
                ExpectationEntry(
                    "pods default/a", ["c default/x"], "cache shows write", "", 1.5, 0, ""
                )
            ],
        ),
    ),
    informers=BoundedList(
        1,
        [
            InformerEntry(
                resource="pods",
                namespace="",
                selector="",
                objects=9,
                undecodable=0,
                revision="81",
                state="Watching",
                connected=True,
                last_byte=1.0,
                last_event=7200.0,
                last_list=None,
                relists=0,
                cause="",
            )
        ],
    ),
    probes=BoundedList(
        1,
        [ProbeEntry("default/h:8265", "health", ["c default/x"], "RayVersion", 3.0, 400.0, 0, "")],
    ),
    tasks=BoundedList(1, [TaskGroup("monitor", "controller.x.run:7", 1)]),
    unreadable={"probes": "RuntimeError"},
)

TEXT = """\
manta 0.1.0 at 2026-11-23T12:00:00Z, log level info
leads for 8.2 s at least; the lease is held by pod-a; last attempt: refused
event loop: timers are 0 ms late, 2.5 s in the last minute
section probes could not be read: RuntimeError

IN BACK-OFF   FAILURES   FOR     NEXT    CAUSE
default/bad   3          2.2 m   4.5 s   exceeded quota
and 6 more, 1 of them unreadable

CONTROLLER              LENGTH   PROCESSING   DIRTY   DELAYED   BACK-OFF   WORKERS   SLOW
raycluster-controller   4        1            5       6         7          1         0

PROCESSING     FOR
default/busy   250 ms

expectations: 1 for 2 objects, 1 pending, 0 of unknown outcome

EXPECTATION      AWAITED             KEPT   FOR     LIVE READS   OWNERS        CAUSE
pods default/a   cache shows write   -      1.5 s   0            c default/x   -

INFORMER   NAMESPACE   OBJECTS   STATE      REVISION   BYTE    EVENT   LIST   RELISTS   CAUSE
pods       *           9         Watching   81         1.0 s   2.0 h   -      0         -

DASHBOARD        PROBE    ANSWER       ANSWERED   CHANGED   FAILURES   OBJECTS       CAUSE
default/h:8265   health   RayVersion   3.0 s      6.7 m     0          c default/x   -
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_plain_tables():
    assert page_text(PAGE, io.StringIO()) == TEXT


def test_tasks_are_shown_on_request():
    table = "\nTASKS     COUNT   PLACE\nmonitor   1       controller.x.run:7\n"
    assert page_text(PAGE, io.StringIO(), tasks=True) == TEXT + table


def test_a_terminal_gets_bold_headings_and_lines_of_its_width(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = page_text(PAGE, Terminal()).splitlines()
    assert "\x1b[1mPROCESSING     FOR\x1b[0m" in lines
    assert max(len(line.removeprefix("\x1b[1m").removesuffix("\x1b[0m")) for line in lines) == 40


def test_nothing_that_is_read_moves_the_cursor():
    odd = msgspec.structs.replace(PAGE, version="\x1b]0;title\x07\n2")
    assert "\x1b" not in page_text(odd, io.StringIO())
    assert page_text(odd, io.StringIO()).splitlines()[0].startswith("manta  ]0;title 2")


@pytest.mark.parametrize(
    ("leader", "line"),
    [
        (Leader(True), "leads, without an election"),
        (Leader(False, 0.0, "other"), "stands by; the lease is held by other"),
        (Leader(False, 0.0), "stands by"),
    ],
)
def test_the_second_line_says_whether_this_process_leads(leader: Any, line: str):
    page = msgspec.structs.replace(PAGE, leader=leader)
    assert page_text(page, io.StringIO()).splitlines()[1] == line
