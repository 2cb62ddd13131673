"""Service account tokens: issued by the subresource `token`, and verified.

JSON web tokens as in Kubernetes, but signed with a key that only this process has. A token is
valid until it expires, or until its service account, or the pod that it is bound to, is deleted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from controller.devcluster.apiserver.access.users import service_account
from controller.devcluster.apiserver.jsondata import child, encode
from controller.devcluster.apiserver.meta import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from controller.devcluster.apiserver.access.users import User
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.storage.store import ObjectStore

_HEADER = {"alg": "HS256", "typ": "JWT"}
_ISSUER = "https://kubernetes.default.svc"
_SECONDS = 3600
_LEAST_SECONDS = 600
UNMANAGED = "default"
"""Account that need not exist, since no controller here creates one in each namespace."""


class TokenIssuer:
    """Issues and verifies tokens.

    Args:
        store: store with the service accounts and pods.
        key: a random secret.
        wall: the time in UTC.
    """

    def __init__(self, store: ObjectStore, key: bytes, wall: Callable[[], datetime]) -> None:
        self._accounts = store.table("serviceaccounts")
        self._pods = store.table("pods")
        self._key = key
        self._wall = wall

    def exists(self, namespace: str, name: str) -> bool:
        """Return whether there can be tokens of that service account."""
        return name == UNMANAGED or f"{namespace}/{name}" in self._accounts.items

    def issue(self, namespace: str, name: str, request: Json) -> Json:
        """Answer a TokenRequest for a service account that exists."""
        spec = child(request, "spec")
        seconds = max(int(spec.get("expirationSeconds") or _SECONDS), _LEAST_SECONDS)
        now = self._wall()
        expires = now + timedelta(seconds=seconds)
        bound = child(spec, "boundObjectRef")
        claims: Json = {
            "iss": _ISSUER,
            "aud": spec.get("audiences") or [_ISSUER],
            "sub": service_account(namespace, name).name,
            "iat": int(now.timestamp()),
            "exp": int(expires.timestamp()),
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": self._uid(namespace, name)},
            },
        }
        if bound.get("kind") == "Pod":
            claims["kubernetes.io"]["pod"] = {"name": bound.get("name"), "uid": bound.get("uid")}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**spec, "audiences": claims["aud"], "expirationSeconds": seconds},
            "status": {"token": self._signed(claims), "expirationTimestamp": timestamp(expires)},
        }

    def user(self, token: str) -> User | None:
        """Return the user with that token; None if it is not valid."""
        content, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(content)):
            return None
        claims = _decoded(content.partition(".")[2])
        bound = child(claims, "kubernetes.io")
        account, pod = child(bound, "serviceaccount"), child(bound, "pod")
        namespace, name = str(bound["namespace"]), str(account["name"])
        if claims["exp"] <= self._wall().timestamp() or _ISSUER not in claims["aud"]:
            return None
        if not self.exists(namespace, name) or self._uid(namespace, name) != account["uid"]:
            return None
        if pod:
            stored = self._pods.items.get(f"{namespace}/{pod['name']}")
            if stored is None or stored.object["metadata"]["uid"] != pod["uid"]:
                return None
        return service_account(namespace, name)

    def _uid(self, namespace: str, name: str) -> str:
        stored = self._accounts.items.get(f"{namespace}/{name}")
        return str(stored.object["metadata"]["uid"]) if stored else ""

    def _signed(self, claims: Json) -> str:
        content = f"{_encoded(encode(_HEADER))}.{_encoded(encode(claims))}"
        return f"{content}.{self._signature(content).decode()}"

    def _signature(self, content: str) -> bytes:
        digest = hmac.new(self._key, content.encode(), hashlib.sha256).digest()
        return _encoded(digest).encode()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> Any:
    """Return the claims of a token with a valid signature."""
    return msgspec.json.decode(binascii.a2b_base64(_padded(text)))


def _padded(text: str) -> str:
    return text.translate(str.maketrans("-_", "+/")) + "=" * (-len(text) % 4)
