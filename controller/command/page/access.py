"""Who may see what on the page."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from controller.kube.resources import Resource


class Viewer(Protocol):
    """An authenticated user."""

    async def may(
        self,
        verb: str,
        resource: Resource[Any],
        namespace: str,
        name: str = "",
        subresource: str = "",
    ) -> bool:
        """Return whether the user may do this; an empty namespace means all of them.

        Raises:
            KubeError: nobody can tell.
        """
        ...


class Access(Protocol):
    """Finds out who sends a request."""

    async def viewer(self, token: str) -> Viewer | None:
        """Return the user with this token; None if it is not valid.

        Raises:
            KubeError: nobody can tell.
        """
        ...


class OwnerOnly:
    """Lets the one who has the token see everything."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def viewer(self, token: str) -> Viewer | None:
        """Implement `Access.viewer`."""
        given = token.encode(errors="surrogateescape")
        return _Everything() if hmac.compare_digest(given, self._token) else None


class _Everything:
    async def may(
        self,
        verb: str,
        resource: Resource[Any],
        namespace: str,
        name: str = "",
        subresource: str = "",
    ) -> bool:
        del verb, resource, namespace, name, subresource
        return True


def token_of(authorization: str) -> str:
    """Return the token of the header `Authorization`, empty if there is none.

    Programs send it as `Bearer`. Browsers can only send a password: with any name, it is the token.
    """
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
