"""The Secret with the token of requests to a cluster's Ray; never rotated, as in KubeRay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels
from controller.ray.api.token import TOKEN_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.ray.children.child import Body
    from controller.ray.head.identity import Identity


def token_secret(identity: Identity, name: str) -> Body:
    """Return the Secret without its token, so that plans, comparisons and logs never hold it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": identity.namespace,
            "labels": {labels.CLUSTER: identity.name},
            "ownerReferences": [identity.owner],
        },
        "type": "Opaque",
    }


def token_data(make: Callable[[], str]) -> Mapping[str, Mapping[str, str]]:
    """Return the Secret's data: a new token."""
    return {"stringData": {TOKEN_KEY: make()}}
