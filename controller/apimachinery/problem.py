"""Validation errors that tell users what to change."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

_SPEC_PATH: Final = re.compile(r"(?<![\w.])spec(?=[.\[]|$)")
"""Matches the start of a path in the specification."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A validation error of an object.

    Attributes:
        field: path of the field, `spec.workerGroupSpecs[0].minReplicas`.
        message: the error and its remedy, a predicate of the field.
        reason: reason of the condition and the event; empty until the kind's validation sets it.
    """

    field: str
    message: str
    reason: str = ""

    def __str__(self) -> str:
        """Return `spec.rayVersion: must be set ...`."""
        return f"{self.field}: {self.message}"

    def or_reason(self, reason: str) -> Problem:
        """Return the same problem, with this reason if it has none."""
        return self if self.reason else replace(self, reason=reason)

    def under(self, path: str, reason: str) -> Problem:
        """Return the same problem of a specification that is embedded at `path` elsewhere."""
        field, message = (_SPEC_PATH.sub(path, text) for text in (self.field, self.message))
        return Problem(field, message, reason)
