"""Deterministic suffixes of generated names."""

from __future__ import annotations

import hashlib

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 5


def suffix(*parts: str) -> str:
    """Return five characters of the alphabet of generated names, which depend on all `parts`."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_LENGTH])
