"""A fence that a test opens and closes, and an election that is won at once."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass


@dataclass
class SwitchableFence:
    leads: bool = True
    left: float = math.inf

    def is_leader(self) -> bool:
        return self.leads

    def time_left(self) -> float:
        return self.left


class FirstCandidate(SwitchableFence):
    """An election that this process wins as soon as it takes part."""

    async def acquire(self) -> None: ...

    async def lost(self) -> None:
        await asyncio.Event().wait()

    async def release(self) -> None: ...

    async def aclose(self) -> None: ...
