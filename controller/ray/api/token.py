"""The authentication token of requests to Ray, and the Secret that holds it."""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Final

from controller.ray.api.names import checked_name

if TYPE_CHECKING:
    from controller.ray.api.raycluster import AuthOptions

TOKEN_KEY: Final = "auth_token"  # noqa: S105 - a key, not a token
"""Key of the token in the Secret; Ray and its clients expect it."""


def token_secret_name(cluster_name: str, auth: AuthOptions) -> str:
    """Return the name of the Secret with the token: the user's, or the one Manta creates."""
    return auth.secret_name or checked_name(cluster_name)


def needs_token_secret(auth: AuthOptions | None) -> bool:
    """Return whether a Secret with a new token must be created for the cluster."""
    return auth is not None and auth.by_token and not auth.by_kubernetes and not auth.secret_name


def new_token() -> str:
    """Return 32 random bytes in base64."""
    return base64.b64encode(secrets.token_bytes(32)).decode()
