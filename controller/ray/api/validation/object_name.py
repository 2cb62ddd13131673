"""Checks that an object's name is a valid prefix for the names of its children."""

from __future__ import annotations

from controller.apimachinery.name_syntax import is_dns_1035_label
from controller.apimachinery.problem import Problem


def name_problem(
    name: str, limit: int, *, noun: str, children: str, named_after: str, reason: str
) -> Problem | None:
    """The problem of an object's name; None if it is valid.

    Args:
        name: of the object.
        limit: most characters.
        noun: what a user creates again under another name: `the cluster`.
        children: whose names need the room that `limit` leaves.
        named_after: children that may not begin with a digit, as their names begin with this one.
        reason: of the problem.
    """
    if len(name) > limit:
        message = (
            f"has {len(name)} characters; at most {limit} leave room for the names of its "
            f"{children}: create {noun} under a shorter name"
        )
        return Problem("metadata.name", message, reason)
    if not is_dns_1035_label(name):
        message = (
            "must consist of lower-case letters, digits and dashes and begin with a letter, "
            f"because {named_after} are named after it: create {noun} under another name"
        )
        return Problem("metadata.name", message, reason)
    return None
