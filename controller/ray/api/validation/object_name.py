"""Checks that an object's name is a valid prefix for the names of its children."""

from __future__ import annotations

from dataclasses import dataclass

from controller.apimachinery.name_syntax import is_dns_1035_label
from controller.apimachinery.problem import Problem


@dataclass(frozen=True, slots=True)
class NameRule:
    """The rule for the names of a kind's objects.

    Attributes:
        limit: most characters.
        noun: what a user creates again under another name: `the cluster`.
        reason: of the problem.
        children: whose names need the room that `limit` leaves.
        named_after: children that may not begin with a digit, as their names begin with this one.
    """

    limit: int
    noun: str
    reason: str
    children: str = "clusters"
    named_after: str = "services"

    def problem(self, name: str) -> Problem | None:
        """The problem of an object's name; None if it is valid."""
        if len(name) > self.limit:
            message = (
                f"has {len(name)} characters; at most {self.limit} leave room for the names of its "
                f"{self.children}: create {self.noun} under a shorter name"
            )
        elif not is_dns_1035_label(name):
            message = (
                "must consist of lower-case letters, digits and dashes and begin with a letter, "
                f"because {self.named_after} are named after it: create {self.noun} under another "
                "name"
            )
        else:
            return None
        return Problem("metadata.name", message, self.reason)
