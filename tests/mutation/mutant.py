"""One mutant: where it is, what it changes, what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KILLED = {"killed", "timeout", "segfault"}
"""A mutant that runs for ever is noticed too, as is one that takes all memory."""

_SEPARATOR = "ǁ"  # mutmut's, around a class


@dataclass(frozen=True)
class Mutant:
    """A mutant.

    Attributes:
        name: mutmut's, such as `workqueue.waiting.xǁKeyHeapǁpop__mutmut_3`: it changes with the
            function.
        path: of the module, from the root.
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


@dataclass(frozen=True)
class Change:
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
