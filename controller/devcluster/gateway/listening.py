"""The addresses of a Gateway's listeners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listening:
    """The addresses of a Gateway's listeners.

    Attributes:
        addresses: addresses for requests.
        ports: each port of a listener, and the one that is bound for it; empty if nothing is.
        problem: a sentence about why there are none; empty otherwise.
        remark: a text about the addresses for users.
    """

    addresses: tuple[str, ...] = ()
    ports: tuple[tuple[int, int], ...] = ()
    problem: str = ""
    remark: str = ""
