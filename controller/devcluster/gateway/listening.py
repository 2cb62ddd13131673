"""The addresses of a Gateway's listeners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.devcluster.gateway.objects import Gateway, HTTPRoute


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


class SimulatedListeners:
    """Gives every Gateway an address where nothing listens, for simulated pods."""

    async def apply(
        self, gateways: Mapping[str, tuple[Gateway, Sequence[HTTPRoute]]]
    ) -> dict[str, Listening]:
        """Implement `Listeners.apply`."""
        return {key: Listening(("10.9.9.9",)) for key in gateways}

    async def aclose(self) -> None:
        """Do nothing: nothing listens."""
