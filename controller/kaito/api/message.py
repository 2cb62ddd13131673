"""Cuts texts for conditions."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 256


def cut(text: str) -> str:
    """Return the text, cut after 256 bytes as Kaito does."""
    encoded = text.encode()
    if len(encoded) <= _LONGEST:
        return text
    return f"{encoded[:_LONGEST].decode(errors='ignore')}..."
