"""Reads the annotation `ray.io/initializing-timeout` of a RayService."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from controller.ray.api import labels
from controller.ray.api.fields.go_duration import InvalidDuration, read_duration

if TYPE_CHECKING:
    from collections.abc import Mapping


class InvalidTimeout(ValueError):  # noqa: N818
    """The annotation is not a time span. The message is a predicate of the annotation."""


def initializing_timeout(annotations: Mapping[str, str] | None) -> timedelta | None:
    """Return the time in which the service must first serve; None for no limit.

    Raises:
        InvalidTimeout: see its message.
    """
    text = (annotations or {}).get(labels.INITIALIZING_TIMEOUT, "")
    if not text:
        return None
    try:
        seconds = float(int(text)) if text.isascii() and text.isdigit() else read_duration(text)
        found = timedelta(seconds=float(seconds))
    except (InvalidDuration, OverflowError, ValueError) as error:
        raise InvalidTimeout(
            f"is {text[:40]!r}; it must be a duration such as 30m, or a number of seconds"
        ) from error
    if found <= timedelta(0):
        raise InvalidTimeout(f"is {text!r}; it must be positive, or left out")
    return found
