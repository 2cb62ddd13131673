"""The headers that a proxy never passes on: they are about one connection (RFC 9110, 7.6.1)."""

from __future__ import annotations

from typing import Final

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""In lower case."""
