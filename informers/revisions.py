"""Compares resource versions (INF-58).

The order is meaningful only within one resource of one cluster. Versions are compared as text, by
length and then by character, so that no number is too large.
"""

from __future__ import annotations

from informers.errors import InvalidResourceVersion


def is_comparable(revision: str) -> bool:
    """Return whether `revision` is a positive decimal number without leading zeros."""
    return revision.isdecimal() and revision.isascii() and revision[0] != "0"


def compare_resource_versions(a: str, b: str) -> int:
    """Return a negative number, zero or a positive number as `a` is older, equal or newer than `b`.

    Raises:
        InvalidResourceVersion: one of them is empty, zero, has a leading zero or a non-digit.
    """
    for revision in (a, b):
        if not is_comparable(revision):
            raise InvalidResourceVersion(f"not a comparable resource version: {revision!r}")
    if len(a) != len(b):
        return len(a) - len(b)
    return (a > b) - (a < b)


def is_older(a: str, b: str) -> bool:
    """Return whether `a` is certainly older than `b`; False if they are not comparable."""
    return is_comparable(a) and is_comparable(b) and compare_resource_versions(a, b) < 0


def is_newer(a: str, b: str) -> bool:
    """Return whether `a` may be newer than `b`; True if they are not comparable."""
    return not (is_comparable(a) and is_comparable(b)) or compare_resource_versions(a, b) > 0


def is_odd(a: str, b: str) -> bool:
    """Return whether `a` cannot be compared, though `b` can be with others."""
    return is_comparable(b) and not is_comparable(a)


def later(a: str, b: str) -> str:
    """Return the newer of two revisions; of a number and what is none, the number."""
    return b if is_older(a, b) or not is_comparable(a) else a
