"""Folds what varies between two texts of the same meaning: ids, counters, ports, times."""

from __future__ import annotations

import re
from typing import Final

_PLACEHOLDER: Final = "#"

_HEX_GROUPS: Final = re.compile(r"\b(?=[\w:-]*\d)[0-9a-f]+(?:[-:]+[0-9a-f]+)+\b", re.IGNORECASE)
_LONG_HEX: Final = re.compile(r"\b[0-9a-f]{8,}\b", re.IGNORECASE)
_WORD_WITH_DIGIT: Final = re.compile(r"\w*\d\w*")
_JOINED: Final = re.compile(rf"{_PLACEHOLDER}(?:[-.:,/+]{_PLACEHOLDER})+")


def fold(text: str) -> str:
    """Return the text without what varies each time a server reports the same.

    UUIDs, hexadecimal numbers, times, addresses and all other words with a digit become one
    placeholder. Two texts with equal folds mean the same, so users need to see only one.
    """
    for pattern in (_HEX_GROUPS, _LONG_HEX, _WORD_WITH_DIGIT, _JOINED):
        text = pattern.sub(_PLACEHOLDER, text)
    return text
