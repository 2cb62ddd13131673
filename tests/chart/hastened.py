"""The chart's alerts in a thirtieth of their time, for real faults that last a minute."""

from __future__ import annotations

import re
from typing import Any, Final

HASTE: Final = 30
_UNITS: Final = {"m": 60, "h": 3600}
_RANGE = re.compile(r"\[(\d+)([mh])\]")
_AGE = re.compile(r"> (\d{3,})\b")


def hastened(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rules, but for the spans and ages that they name, all of which are minutes or more.

    The counts and shares that they name stay, and so do waits of seconds.
    """
    return [group | {"rules": list(map(_hastened, group["rules"]))} for group in groups]


def _hastened(rule: dict[str, Any]) -> dict[str, Any]:
    expression = _RANGE.sub(lambda found: f"[{_seconds(*found.groups())}s]", rule["expr"])
    expression = _AGE.sub(lambda found: f"> {int(found[1]) // HASTE}", expression)
    waits = {"for": f"{_seconds(rule['for'][:-1], rule['for'][-1])}s"} if "for" in rule else {}
    return rule | {"expr": expression} | waits


def _seconds(number: str, unit: str) -> int:
    return int(number) * _UNITS[unit] // HASTE
