"""What is wrong with an object, in words that its user can act on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

_SPEC_PATH: Final = re.compile(r"(?<![\w.])spec(?=[.\[]|$)")
"""Where a path begins at the specification."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The first thing found wrong with an object.

    Attributes:
        field: path of the field, `spec.workerGroupSpecs[0].minReplicas`.
        message: what is wrong and what to do about it, one sentence without the path.
        reason: of the condition and the event; empty until the kind's validation sets it.
    """

    field: str
    message: str
    reason: str = ""

    def __str__(self) -> str:
        """`spec.rayVersion: must be set ...`."""
        return f"{self.field}: {self.message}"

    def or_reason(self, reason: str) -> Problem:
        """The same problem, with this reason if it has none of its own."""
        return self if self.reason else replace(self, reason=reason)

    def under(self, path: str, reason: str) -> Problem:
        """The same problem of a specification that stands at `path` in another object."""
        field, message = (_SPEC_PATH.sub(path, text) for text in (self.field, self.message))
        return Problem(field, message, reason)
