"""Who may see what on the page."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from controller.apimachinery.custom_object import mapping

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controller.kube.client import Client
    from controller.kube.resources import Resource

_REMEMBERED: Final = 10.0
"""Seconds for which an answer of the API server counts."""
_MOST_USERS: Final = 1000


class Viewer:
    """An authenticated user.

    Args:
        decide: whether he may do what `resourceAttributes` of a SubjectAccessReview say.
    """

    def __init__(self, decide: Callable[[dict[str, str]], Awaitable[bool]]) -> None:
        self._decide = decide
        self._decided: dict[tuple[str, ...], bool] = {}

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
        key = (verb, resource.group, resource.plural, namespace, name, subresource)
        if key not in self._decided:
            names = ("verb", "group", "resource", "namespace", "name", "subresource")
            asked = {each: value for each, value in zip(names, key, strict=True) if value}
            self._decided[key] = await self._decide({**asked, "version": resource.version})
        return self._decided[key]


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
        return Viewer(_everything) if hmac.compare_digest(given, self._token) else None


async def _everything(_asked: dict[str, str]) -> bool:
    return True


class Reviewed:
    """Asks the API server, which needs the rights of `system:auth-delegator`.

    Args:
        client: its requests must not be fenced: replicas that do not lead answer, too.
        now: seconds of a clock.
    """

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._known: dict[bytes, tuple[float, Viewer | None]] = {}

    async def viewer(self, token: str) -> Viewer | None:
        """Implement `Access.viewer`."""
        if not token:
            return None
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        until, known = self._known.get(key, (0.0, None))
        if self._now() < until:
            return known
        found = await _reviewed(
            self._client, "authentication.k8s.io", "TokenReview", {"token": token}
        )
        user = mapping(found.get("user"))
        valid = found.get("authenticated") is True and bool(user.get("username"))
        if len(self._known) >= _MOST_USERS:
            self._known.clear()
        viewer = Viewer(_ReviewedUser(self._client, user).may) if valid else None
        self._known[key] = self._now() + _REMEMBERED, viewer
        return viewer


@dataclass(frozen=True, slots=True)
class _ReviewedUser:
    client: Client
    user: dict[str, Any]

    async def may(self, asked: dict[str, str]) -> bool:
        who = {each: self.user[each] for each in ("uid", "groups", "extra") if each in self.user}
        spec = {"user": self.user["username"], **who, "resourceAttributes": asked}
        found = await _reviewed(self.client, "authorization.k8s.io", "SubjectAccessReview", spec)
        return found.get("allowed") is True


async def _reviewed(client: Client, group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a review."""
    body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
    path = f"/apis/{group}/v1/{kind.lower()}s"
    return mapping(mapping(await client.request_json("POST", path, body=body)).get("status"))


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
