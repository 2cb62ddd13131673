"""The addresses of a Gateway's listeners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listening:
    """The addresses of a Gateway's listeners.

    Attributes:
        addresses: addresses for requests.
        problem: a sentence about why there are none; empty otherwise.
        remark: a text about the addresses for users.
    """

    addresses: tuple[str, ...] = ()
    problem: str = ""
    remark: str = ""
