"""The addresses of a Gateway's listeners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listening:
    """The addresses of a Gateway's listeners.

    Attributes:
        addresses: where requests may be sent to.
        problem: why they may not, a sentence; empty if they may.
        remark: where requests may be sent to, for people.
    """

    addresses: tuple[str, ...] = ()
    problem: str = ""
    remark: str = ""
