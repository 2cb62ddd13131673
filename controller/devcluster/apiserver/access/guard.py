"""The guard of the server's port: identifies the user, and detects requests of foreign web pages.

Everything is decided from the head of a request, before its body is read.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from controller.devcluster.apiserver.access.users import ADMIN
from controller.devcluster.apiserver.protocol.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.devcluster.apiserver.access.tokens import TokenIssuer
    from controller.devcluster.apiserver.access.users import User


class Refused(ApiError):  # noqa: N818  named for what happened
    """A request that is answered without being read."""


class Guard:
    """Authenticates the heads of requests.

    Args:
        token: token of the administrator.
        issuer: issuer of service accounts' tokens.
        hosts: names and addresses by which the server may be called; a web page whose name was
            made to resolve to this machine sends another one.
    """

    def __init__(self, token: str, issuer: TokenIssuer, hosts: Iterable[str]) -> None:
        self._token = token.encode()
        self._issuer = issuer
        self._hosts = frozenset(hosts)

    def user(self, headers: Mapping[str, str]) -> User:
        """Return the user who sends a request.

        Args:
            headers: fields of the request; the mapping ignores case.

        Raises:
            Refused: 421, a foreign `Host`; 403, a foreign `Origin`; 401, no valid token.
        """
        if _host(headers.get("Host", "")) not in self._hosts:
            raise Refused(421, "BadRequest", "this server has another name")
        origin = headers.get("Origin")
        if origin is not None and _host(origin.partition("://")[2]) not in self._hosts:
            raise Refused(403, "Forbidden", "requests of other origins are not answered")
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        user = self._authenticated(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise Refused(401, "Unauthorized", "Unauthorized")
        if not user.is_admin and any(name.lower().startswith("impersonate-") for name in headers):
            raise Refused(403, "Forbidden", f'User "{user.name}" cannot impersonate')
        return user

    def _authenticated(self, token: str) -> User | None:
        given = token.encode(errors="surrogateescape")
        if hmac.compare_digest(given, self._token):
            return ADMIN
        return self._issuer.user(token) if token.isascii() else None


def _host(authority: str) -> str:
    """Return the name or address in `host:port`, empty if there is none."""
    try:
        return urlsplit(f"//{authority}").hostname or ""
    except ValueError:
        return ""
