"""The Secret with the token that a cluster's requests to Ray carry. Never rotated (KubeRay)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels
from controller.ray.api.token import TOKEN_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.ray.children.child import Body
    from controller.ray.head.identity import Identity


def token_secret(identity: Identity, name: str) -> Body:
    """The Secret without its token, so that it can be planned, compared and printed."""
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
    """What makes it a Secret: a token that did not exist before."""
    return {"stringData": {TOKEN_KEY: make()}}
