"""One mutant, what became of it, and those that no test can kill: `equivalent.toml`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from msgspec import Struct

KILLED = {"killed", "timeout", "segfault"}
"""A mutant that runs for ever is noticed too, as is one that takes all memory."""

_SEPARATOR = "ǁ"  # mutmut's, around a class


class Mutant(Struct, frozen=True):
    """A mutant.

    Attributes:
        name: mutmut's, such as `workqueue.waiting.xǁKeyHeapǁpop__mutmut_3`: it changes with the
            function.
        fate: `killed`, `survived`, `no tests`, `not checked`, ...
    """

    name: str
    path: Path
    fate: str

    @property
    def killed(self) -> bool:
        """Whether the tests have noticed it."""
        return self.fate in KILLED

    @property
    def untried(self) -> bool:
        """Whether it is still to be tried."""
        return self.fate == "not checked"

    @property
    def module(self) -> str:
        """The module that is changed, with dots."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    @property
    def function(self) -> str:
        """The function that is changed, with module and class."""
        mangled = self.name.removeprefix(f"{self.module}.").partition("__mutmut_")[0]
        if mangled.startswith(f"x{_SEPARATOR}"):
            mangled = mangled.removeprefix(f"x{_SEPARATOR}").replace(_SEPARATOR, ".")
        else:
            mangled = mangled.removeprefix("x_")
        return f"{self.module}.{mangled}"


class Change(Struct, frozen=True):
    """The lines that a mutant takes away, and those that it puts in their place.

    They are without indentation, several lines joined by a space: this stays when mutants are
    numbered anew.
    """

    before: str
    after: str

    @classmethod
    def of_diff(cls, diff: str) -> Change:
        """Return the change that a unified diff of one function shows."""
        lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
        before, after = (
            " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
        )
        return cls(before, after)


LIST = Path(__file__).with_name("equivalent.toml")

_TEXT = re.compile(r'"[^"]*"')
_CAST = re.compile(r'\bcast\((?:None|"[^"]*"), ')


class Equivalent(Struct, frozen=True):
    """A mutant that behaves as the code does, as far as anybody can see.

    Attributes:
        function: in which it is, with module and class.
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
    """
    return [
        Equivalent(function, Change(table["before"], after), table["reason"])
        for function, tables in tomllib.loads(path.read_text()).items()
        for table in tables
        for after in _lines(table["after"])
    ]


def _lines(after: str | list[str]) -> list[str]:
    return [after] if isinstance(after, str) else after
