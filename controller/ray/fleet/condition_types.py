"""Types and reasons of a fleet's conditions."""

from __future__ import annotations

from typing import Final

UPGRADING: Final = "Upgrading"
"""True while outdated copies are being replaced, Unknown while that is paused."""

CHANGES_HELD: Final = "ChangesHeld"
"""Present while something would be replaced or deleted without an explanation."""

ROLLING: Final = "Rolling"
STUCK: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "Paused"
UP_TO_DATE: Final = "UpToDate"
