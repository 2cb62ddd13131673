"""Reads small documents from a web server that is not trusted.

Redirects are followed within the same server only, so that no token goes elsewhere. Proxy variables
of the environment are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import aiohttp
from yarl import URL

from controller.kaito.api.messages import cut
from controller.kaito.lookups.background import LookupFailed

_MOST_REDIRECTS: Final = 3
UNREACHABLE: Final = "ModelMetadataUnavailable"


@dataclass(frozen=True, slots=True)
class Document:
    """An answer.

    Attributes:
        status: HTTP status code.
        body: empty unless the status is 200.
        retry_after: seconds to wait before the next request, as the server asked.
        is_part: whether the server has more than this page.
    """

    status: int
    body: bytes = b""
    retry_after: float = 0.0
    is_part: bool = False


class WebReader:
    """Reads documents of one server. To be used and closed in one running event loop.

    Args:
        address: address of the server, with the path that all documents have in common.
    """

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._origin = URL(self._address).origin()
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, *, token: str = "", limit: int) -> Document:
        """Read one document.

        Args:
            path: absolute, with its query.
            token: sent as a bearer token if there is one.
            limit: maximum bytes to read.

        Raises:
            LookupFailed: the server cannot be reached, sends too much, or redirects elsewhere.
        """
        url = URL(f"{self._address}{path}", encoded=True)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        for _ in range(1 + _MOST_REDIRECTS):
            found = await self._exchange(url, headers, limit)
            if isinstance(found, Document):
                return found
            url = found
        raise LookupFailed(UNREACHABLE, f"{self._origin.host} redirects again and again")

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        self._session = self._session or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"accept-encoding": "identity", "user-agent": "manta-operator"},
            timeout=aiohttp.ClientTimeout(total=None),  # the deadline of the look-up covers it
            auto_decompress=False,
            trust_env=False,
        )
        return self._session

    async def _exchange(self, url: URL, headers: dict[str, str], limit: int) -> Document | URL:
        """Return the answer, or the address to which it redirects."""
        host = self._origin.host
        try:
            async with self._opened().get(url, headers=headers, allow_redirects=False) as answer:
                location = answer.headers.get("location", "")
                if 300 <= answer.status < 400 and location:
                    return self._redirected(url, location)
                body = await _read(answer, limit) if answer.status == HTTPStatus.OK else b""
                return Document(
                    answer.status,
                    body,
                    _seconds(answer.headers.get("retry-after", "")),
                    is_part="next" in answer.links,
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            message = cut(f"{host} cannot be reached: {error or type(error).__name__}")
            raise LookupFailed(UNREACHABLE, message) from None

    def _redirected(self, url: URL, location: str) -> URL:
        """Return the address of another path of the same server.

        Raises:
            LookupFailed: it is another server.
            ValueError: it is not an address.
        """
        other = url.join(URL(location))
        if other.origin() != self._origin:
            raise LookupFailed(UNREACHABLE, f"{self._origin.host} redirects to another server")
        return other


async def _read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        LookupFailed: it is longer than allowed.
    """
    parts: list[bytes] = []
    left = limit
    async for part in answer.content.iter_any():
        left -= len(part)
        if left < 0:
            raise LookupFailed(UNREACHABLE, f"{answer.url.host} sends more than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


def _seconds(text: str) -> float:
    """Return the value of `Retry-After`; 0 if it is a date or anything else."""
    return float(text) if text.isdecimal() and len(text) < 7 else 0.0
