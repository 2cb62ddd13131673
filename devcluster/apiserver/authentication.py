"""Who asks: users and their groups, tokens of service accounts, and the guard of the port."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from msgspec import Struct

from devcluster.apiserver.objects import Json, child, timestamp
from devcluster.apiserver.status import ApiError
from devcluster.apiserver.store import ObjectStore

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
_ACCOUNT = "system:serviceaccount:"


class User(Struct, frozen=True):
    """An authenticated user.

    Attributes:
        name: such as `kubernetes-admin` or `system:serviceaccount:NAMESPACE:NAME`.
    """

    name: str
    groups: tuple[str, ...]

    @property
    def is_admin(self) -> bool:
        """True if everything is allowed."""
        return MASTERS in self.groups


ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))


def user_named(name: str, *groups: str) -> User:
    """Return the user of that name, in `groups` and those of every such user."""
    if name.startswith(_ACCOUNT) and name.count(":") == 3:
        namespace = name.split(":")[2]
        groups = (*groups, "system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(name, (*groups, AUTHENTICATED))


def service_account(namespace: str, name: str) -> User:
    """Return the user of a service account."""
    return user_named(f"{_ACCOUNT}{namespace}:{name}")


_ISSUER = "https://kubernetes.default.svc"
_SECONDS = 3600
_LEAST_SECONDS = 600
UNMANAGED = "default"
"""Account that need not exist, since no controller here creates one in each namespace."""


class _Issued(Struct, frozen=True):
    """What a token stands for: an account and perhaps a pod, by their uids, until it expires."""

    namespace: str
    name: str
    uid: str
    pod: Json
    audiences: list[str]
    expires: datetime


class TokenIssuer:
    """Issues and verifies tokens, which say nothing by themselves."""

    def __init__(self, store: ObjectStore, wall: Callable[[], datetime]) -> None:
        self._accounts = store.table("serviceaccounts")
        self._pods = store.table("pods")
        self._wall = wall
        self._issued: dict[str, _Issued] = {}

    def exists(self, namespace: str, name: str) -> bool:
        """Return whether there can be tokens of that service account."""
        return name == UNMANAGED or f"{namespace}/{name}" in self._accounts.items

    def issue(self, namespace: str, name: str, request: Json) -> Json:
        """Answer a TokenRequest for a service account that exists."""
        spec = child(request, "spec")
        seconds = max(int(spec.get("expirationSeconds") or _SECONDS), _LEAST_SECONDS)
        now, bound = self._wall(), child(spec, "boundObjectRef")
        issued = _Issued(
            namespace,
            name,
            self._uid(namespace, name),
            bound if bound.get("kind") == "Pod" else {},
            spec.get("audiences") or [_ISSUER],
            now + timedelta(seconds=seconds),
        )
        self._issued = {key: one for key, one in self._issued.items() if one.expires > now}
        token = secrets.token_urlsafe(32)
        self._issued[token] = issued
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**spec, "audiences": issued.audiences, "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": timestamp(issued.expires)},
        }

    def user(self, token: str) -> User | None:
        """Return the user with that token; None if it is not valid."""
        issued = self._issued.get(token)
        if issued is None or issued.expires <= self._wall() or _ISSUER not in issued.audiences:
            return None
        namespace, name = issued.namespace, issued.name
        if not self.exists(namespace, name) or self._uid(namespace, name) != issued.uid:
            return None
        if issued.pod:
            stored = self._pods.items.get(f"{namespace}/{issued.pod['name']}")
            if stored is None or stored.object["metadata"]["uid"] != issued.pod["uid"]:
                return None
        return service_account(namespace, name)

    def _uid(self, namespace: str, name: str) -> str:
        stored = self._accounts.items.get(f"{namespace}/{name}")
        return str(stored.object["metadata"]["uid"]) if stored else ""


class Refused(ApiError):  # noqa: N818  named for what happened
    """A request that is answered without being read."""


class Guard:
    """Authenticates the heads of requests.

    Args:
        hosts: names and addresses by which the server may be called; a web page whose name was
            made to resolve to this machine sends another one.
    """

    def __init__(self, token: str, issuer: TokenIssuer, hosts: Iterable[str]) -> None:
        self._token = token.encode()
        self._issuer = issuer
        self._hosts = frozenset(hosts)

    def user(self, headers: Mapping[str, str]) -> User:
        """Return the user who sends a request.

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
