"""Mutants that no test can kill, each with the reason: `equivalent.toml`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.mutant import Change

LIST = Path(__file__).with_suffix(".toml")

_TEXT = re.compile(r'"[^"]*"')
_CAST = re.compile(r'\bcast\((?:None|"[^"]*"), ')


@dataclass(frozen=True)
class Equivalent:
    """A mutant that behaves as the code does, as far as anybody can see.

    Attributes:
        function: in which it is, with module and class.
        change: what it changes.
        reason: why nobody can see it.
    """

    function: str
    change: Change
    reason: str


def is_for_type_checkers(change: Change) -> bool:
    """Return whether only the type of a `cast` changes, which does nothing at run time."""
    return _CAST.sub("cast(", change.before) == _CAST.sub("cast(", change.after)


def is_wording(change: Change) -> bool:
    """Return whether only texts of several words change, which people read and no program does."""
    return _without_sentences(change.before) == _without_sentences(change.after)


def _without_sentences(line: str) -> str:
    return _TEXT.sub(lambda text: '""' if " " in text.group() else text.group(), line)


def listed(path: Path = LIST) -> list[Equivalent]:
    """Return the list.

    A table is named after the function. `after` is one line or several, each of which makes a
    mutant of `before`.

    Raises:
        KeyError: a table lacks `before`, `after` or `reason`.
    """
    return [
        Equivalent(function, Change(table["before"], after), table["reason"])
        for function, tables in tomllib.loads(path.read_text()).items()
        for table in tables
        for after in _lines(table["after"])
    ]


def _lines(after: str | list[str]) -> list[str]:
    return [after] if isinstance(after, str) else after
