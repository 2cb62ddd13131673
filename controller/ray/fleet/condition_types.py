"""Types and reasons of a fleet's conditions."""

from __future__ import annotations

from typing import Final

UPGRADING: Final = "Upgrading"
"""Condition type: True while outdated copies are being replaced, Unknown while paused."""

CHANGES_HELD: Final = "ChangesHeld"
"""Condition type: present while an unexplained replacement or deletion is held."""

ROLLING: Final = "Rolling"
STUCK: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "Paused"
UP_TO_DATE: Final = "UpToDate"
