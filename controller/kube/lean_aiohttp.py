"""Imports aiohttp without 2.7 MiB that an operator never uses.

aiohttp reads the system's certificates twice, for connections that are given no TLS context: here
all have one, and one without trusts nobody. The compiled part of `frozenlist` brings the runtime of
C++ for lists of callbacks, of which there are none.
"""

from __future__ import annotations

import os
from importlib import import_module
from ssl import SSLContext
from typing import Final

_MEANWHILE: Final = {
    "SSL_CERT_FILE": os.devnull,
    "SSL_CERT_DIR": os.devnull,
    "FROZENLIST_NO_EXTENSIONS": "1",
}


def _import() -> None:
    before = {name: os.environ.get(name) for name in _MEANWHILE}
    os.environ.update(_MEANWHILE)
    try:
        import_module("aiohttp")
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


_import()

import aiohttp as aiohttp  # noqa: E402, PLC0414  for others to import from here


def plain_session(tls: SSLContext | None = None) -> aiohttp.ClientSession:
    """Return a session that keeps no connection and no cookie, and reads bodies as they are sent.

    Its requests end when their task does, and know nothing of the environment's proxies.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True, ssl=tls or True),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "identity", "user-agent": "manta-operator"},
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
    )


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """Return the whole body; None if it is longer than allowed, and then the rest is not read."""
    parts: list[bytes] = []
    left = limit
    async for part in response.content.iter_any():
        left -= len(part)
        if left < 0:
            response.close()
            return None
        parts.append(part)
    return b"".join(parts)
