"""Checks that an object's name is a valid prefix for the names of its children."""

from __future__ import annotations

from dataclasses import dataclass

from controller.apimachinery.names import is_dns_1035_label
from controller.apimachinery.problem import Problem


@dataclass(frozen=True, slots=True)
class NameRule:
    """The rule for the names of a kind's objects.

    Attributes:
        limit: maximum characters.
        noun: the object to create again under another name: `the cluster`.
        reason: reason of the problem.
        children: the objects whose names need the room that `limit` leaves.
        named_after: children whose names begin with this one and may not begin with a digit.
    """

    limit: int
    noun: str
    reason: str
    children: str = "clusters"
    named_after: str = "services"

    def problem(self, name: str) -> Problem | None:
        """Return the problem of an object's name; None if it is valid."""
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
