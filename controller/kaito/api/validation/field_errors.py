"""Errors of fields, with the texts that Kaito's users know.

Kaito's webhook is built with knative, whose form this is: `message: path, path`, one error a line,
sorted; equal messages share a line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INVALID: Final = "InvalidWorkspaceSpec"
"""Reason of the condition of an object that its validation rejects."""

EMPTY: Final = '""'
"""A value without any text, as messages show it."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one or more fields.

    Attributes:
        message: what is wrong.
        paths: paths of the fields, relative to where the error was found; empty only where the
            message names what it is about.
        details: a further line.
    """

    message: str
    paths: tuple[str, ...] = ()
    details: str = ""

    def __str__(self) -> str:
        """Return `invalid value: x: resource.instanceType`."""
        text = f"{self.message}: {', '.join(self.paths)}" if self.paths else self.message
        return f"{text}\n{self.details}" if self.details else text


def invalid_value(value: object, path: str, details: str = "") -> FieldError:
    """Return an error about a value, or a sentence in its place."""
    return FieldError(f"invalid value: {value}", (path,), details)


def missing_field(*paths: str) -> FieldError:
    """Return an error about missing fields."""
    return FieldError("missing field(s)", paths)


def via(prefix: str, errors: Iterable[FieldError]) -> Iterator[FieldError]:
    """Yield the errors with `prefix` before their paths."""
    for error in errors:
        paths = tuple(".".join(filter(None, (prefix, path))) for path in error.paths)
        yield replace(error, paths=paths)


def message_of(errors: Iterable[FieldError]) -> str:
    """Return the text of all errors."""
    paths: dict[tuple[str, str], set[str]] = {}
    for error in errors:
        paths.setdefault((error.message, error.details), set()).update(error.paths)
    merged = [
        FieldError(message, tuple(sorted(found)), details)
        for (message, details), found in sorted(paths.items())
    ]
    return "\n".join(map(str, merged))


def as_problem(errors: tuple[FieldError, ...], reason: str = INVALID) -> Problem | None:
    """Return all errors as one problem of the object, None if there are none."""
    if not errors:
        return None
    first = next((path for error in errors for path in error.paths if path), "spec")
    return Problem(first, message_of(errors), reason)
