"""Fetches the debug page from this machine and prints it."""

from __future__ import annotations

import http.client
import sys
from typing import Final

import msgspec

from controller.command.debug.text import page_text
from controller.runtime.debug import PageContent

_TIMEOUT: Final = 10.0
"""Seconds. A process whose event loop is blocked for longer does not answer."""

_LONGEST: Final = 16 * 1024 * 1024
"""Maximum bytes of an answer to read; a page is far shorter."""


class _NoPageError(Exception):
    """There is no page to print; the message says what to do."""


def debug(port: int, output: str) -> int:
    """Print the page; returns the exit status.

    Args:
        port: port of the page, on this machine.
        output: `text` or `json`.
    """
    try:
        body = _fetch(port)
        page = _decode(body, port)
    except _NoPageError as error:
        sys.stderr.write(f"manta debug: {error}\n")
        return 1
    if output == "json":
        sys.stdout.write(f"{msgspec.json.format(body, indent=2).decode()}\n")
    else:
        sys.stdout.write(page_text(page, sys.stdout))
    return 0


def _fetch(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
    try:
        connection.request("GET", "/debug")
        answer = connection.getresponse()
        body = answer.read(_LONGEST)
    except ConnectionError as error:
        raise _NoPageError(
            f"nothing listens at port {port} of this machine. Start the operator with --debug-port="
            f"{port} (chart: debugPort), then reach its pod: kubectl -n NAMESPACE port-forward POD "
            f"{port}, or kubectl -n NAMESPACE exec POD -- manta debug --port={port}"
        ) from error
    except TimeoutError as error:
        raise _NoPageError(
            f"whatever listens at port {port} did not answer for {_TIMEOUT:.0f} s. If it is the "
            "operator, its event loop is blocked: see how much of a processor it gets"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise _NoPageError(
            f"port {port} of this machine: {type(error).__name__} {error}"
        ) from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise _NoPageError(
            f"port {port} answers {answer.status}: it is not the operator's --debug-port"
        )
    return body


def _decode(body: bytes, port: int) -> PageContent:
    try:
        return msgspec.json.decode(body, type=PageContent)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _NoPageError(
            f"what port {port} answers is no debug page of this version: {error}"
        ) from error
