"""Durations in Go's syntax: `1h30m`, `500ms`, `0`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_UNITS: Final = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART: Final = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION: Final = re.compile(rf"[+-]?(?:{_PART})+")
_LONGEST: Final = 290 * 365 * 86400
"""Maximum duration in seconds: Go's durations end at 292 years."""


class InvalidDuration(ValueError):  # noqa: N818
    """The text is not a duration. The message is a sentence about it."""


def read_duration(text: str) -> Decimal:
    """Parse a duration to seconds.

    Raises:
        InvalidDuration: the text has another syntax, or the duration is too long for Go.
    """
    if text in {"0", "+0", "-0"}:
        return Decimal(0)
    if _DURATION.fullmatch(text) is None:
        raise InvalidDuration(f"{text!r} is not a duration such as 90m or 1h30m")
    parts = [Decimal(number) * _UNITS[unit] for number, unit in re.findall(_PART, text)]
    seconds = sum(parts, start=Decimal(0))
    if seconds > _LONGEST:
        raise InvalidDuration(f"{text!r} is longer than 290 years")
    return -seconds if text.startswith("-") else seconds
