"""The state of a probe as a kind observes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client.values import ProbeValue


@dataclass(frozen=True, slots=True)
class ProbeObservation:
    """The state of one probe.

    Attributes:
        value: the last definite response; None if there is none yet, or none since the end of the
            last command that invalidates the probe. None means unknown, never absent.
        since: time when `value` last changed.
        last_success: start of the last request that had a definite response.
        failing_since: start of the first of the consecutive failed requests; None while there are
            too few of them.
        error: error of the last of them, as a sentence; empty without `failing_since`.
    """

    value: ProbeValue | None
    since: datetime
    last_success: datetime | None = None
    failing_since: datetime | None = None
    error: str = ""
