"""Validation errors that tell users what to change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from controller.kube.objects import ObjectMeta

_SPEC_PATH: Final = re.compile(r"(?<![\w.])spec(?=[.\[]|$)")
"""Matches the start of a path in the specification."""


class Problem(Struct, frozen=True):
    """A validation error of an object, and all others that were found with it.

    Attributes:
        field: path of the field, `spec.workerGroupSpecs[0].minReplicas`.
        message: the error and its remedy, a predicate of the field.
        reason: reason of the condition and the event; empty until the kind's validation sets it.
        against: paths of the other fields of a contradiction, which the message names too.
    """

    field: str
    message: str
    reason: str = ""
    against: tuple[str, ...] = ()
    others: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        """Return `spec.rayVersion: must be set ...`, and the same for each other problem."""
        return ". Also ".join(f"{each.field}: {each.message}" for each in self.all)

    @property
    def all(self) -> tuple[Problem, ...]:
        """This problem and the others, each alone."""
        return (replace(self, others=()), *self.others)

    def concerns(self, *paths: str) -> bool:
        """Return whether one of the problems is about one of these fields or a part of it."""
        fields = [path for each in self.all for path in (each.field, *each.against)]
        return any(_is_part(field, path) for field in fields for path in paths)

    def or_reason(self, reason: str) -> Problem:
        """Return the same problem, with this reason if it has none."""
        return self if self.reason else replace(self, reason=reason)

    def under(self, path: str, reason: str) -> Problem:
        """Return the same problem of a specification that is embedded at `path` elsewhere."""
        moved = [
            Problem(
                _SPEC_PATH.sub(path, each.field),
                _SPEC_PATH.sub(path, each.message),
                reason,
                tuple(_SPEC_PATH.sub(path, field) for field in each.against),
            )
            for each in self.all
        ]
        return replace(moved[0], others=tuple(moved[1:]))


def together(problems: Iterable[Problem]) -> Problem | None:
    """Return all problems of an object as one; None if there are none.

    Contradictions come first: who corrects one field of them meets the next refusal.
    """
    found = list(dict.fromkeys(each for problem in problems for each in problem.all))
    found.sort(key=lambda each: not each.against)
    return replace(found[0], others=tuple(found[1:])) if found else None


def _is_part(field: str, path: str) -> bool:
    return field == path or field.startswith((f"{path}.", f"{path}["))


# The kubectl command that a message advises for labels and annotations.


def overwrite_command(
    verb: Literal["annotate", "label"], kind: str, metadata: ObjectMeta, values: Mapping[str, str]
) -> str:
    """Return the command that gives an object these annotations or labels, whatever it has now."""
    pairs = " ".join(f"{key}={value}" for key, value in values.items())
    return (
        f"kubectl {verb} {kind.lower()} -n {metadata.namespace} {metadata.name} --overwrite {pairs}"
    )
