"""Imports aiohttp without 2.7 MiB that an operator never uses.

aiohttp reads the system's certificates twice, for connections that are given no TLS context: here
all have one, and one without trusts nobody. The compiled part of `frozenlist` brings the runtime of
C++ for lists of callbacks, of which there are none.
"""

from __future__ import annotations

import os
from importlib import import_module
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
