"""A fence that a test opens and closes."""

from __future__ import annotations

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
