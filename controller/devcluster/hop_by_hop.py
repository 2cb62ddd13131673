"""The headers that a proxy never forwards: they belong to one connection (RFC 9110, 7.6.1)."""

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
"""Names of the headers in lower case."""
