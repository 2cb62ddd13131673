"""Messages for people: each one that a test causes is checked, and can be listed to be read.

`pytest --messages=table.tsv` lists events, conditions and validation errors with their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from controller.apimachinery.conditions import ConditionSet
from controller.apimachinery.validation import Problem
from controller.runtime.plan import Event

_FAULTS: Final = {
    "a colon with nothing after it": re.compile(r":\s*($|[;,)])|: +[:\n]"),
    "nothing between brackets or backticks": re.compile(r"\( *\)|\[ *\]|``"),
    "a missing part, or two stops": re.compile(r"^[;,]|[;,] *[;,]| [;,](?! )| ,|(?<!\.)\.[;,]"),
    "spaces where none belong": re.compile(r"^\s|(?<![,\n ])  (?!\n)"),
    "a value of a program": re.compile(r"<nil>|NoneType|object at 0x|%!|\bnan\b"),
    "text as Python writes it": re.compile(
        r"\w\(['\"]|\{'|\['|<class |datetime\.|Traceback \(most"
    ),
    "an escape code": re.compile(r"\x1b|\\x1b|\\u001b"),
    "a name that was not filled in": re.compile(r"\{\w*\}(?![\]}])"),
}

CHECKED: Final = ("tests/ray/", "tests/kaito/", "tests/integration/")
"""Folders of tests whose messages are checked, unless their texts are random."""

_seen: set[tuple[str, str]] = set()
_faulty: list[str] = []


def faults(text: str) -> list[str]:
    """What is wrong with a message, whatever it is about."""
    return [fault for fault, pattern in _FAULTS.items() if pattern.search(text)]


def watch() -> None:
    """Check every event, condition and validation error that is made from now on."""
    _after(Event, "__init__", _event)
    _after(Problem, "__init__", _problem)
    _after(ConditionSet, "set", _condition)


def _event(made: Event, *_: Any, **__: Any) -> None:
    _check(f"event {made.reason}", made.note)


def _problem(made: Problem, *_: Any, **__: Any) -> None:
    _check("problem", f"{made.field}: {made.message}")


def _condition(_: ConditionSet, kind: str, status: str, reason: str, message: str) -> None:
    _check(f"condition {kind} {status} {reason}", message)


def _after(owner: type, name: str, check: Callable[..., None]) -> None:
    method = getattr(owner, name)

    def checked(*arguments: Any, **named: Any) -> None:
        method(*arguments, **named)
        check(*arguments, **named)

    setattr(owner, name, checked)


def _check(where: str, text: str) -> None:
    if text and (where, text) not in _seen:
        _seen.add((where, text))
        _faulty.extend(f"{fault} in the {where}: {text}" for fault in faults(text))


def take_faults() -> list[str]:
    """The faults of the messages since the last call."""
    found = list(_faulty)
    _faulty.clear()
    return found


def table() -> str:
    """All messages, one a line, without those that differ only in numbers."""
    kept = {(where, re.sub(r"\d+", "0", text)): text for where, text in sorted(_seen)}
    return "".join(f"{where}\t{text!r}\n" for (where, _), text in kept.items())
