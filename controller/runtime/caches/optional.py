"""Finds out which of the optional resources the API server has.

A resource that the operator may not list counts as missing: the operator works without it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from controller.kube.discovery import is_served
from controller.kube.errors import Forbidden, KubeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.client import Client
    from controller.kube.resources import Resource

RETRY: Final = 2.0
"""Seconds between two attempts to learn what the server has."""

ASK: Final = 30.0
"""Seconds after which the server is asked again for a resource that it lacked."""

_log = structlog.stdlib.get_logger("manta.caches")


async def wait_until_known(
    client: Client, resource: Resource[Any], namespaces: Sequence[str]
) -> bool:
    """Return whether the server serves it and it may be listed; retry until the server responds.

    Args:
        client: to ask with.
        resource: may be missing.
        namespaces: in which it must be possible to list it; none to leave that open.
    """
    while True:
        try:
            return await is_available(client, resource, namespaces)
        except Forbidden as error:
            _log.warning("resource.forbidden", resource=str(resource), error=str(error))
            return False
        except KubeError as error:
            _log.warning("discovery.failed", resource=str(resource), error=str(error))
            await asyncio.sleep(RETRY)


async def is_available(client: Client, resource: Resource[Any], namespaces: Sequence[str]) -> bool:
    """Return whether the server serves a resource and it may be listed; see `wait_until_known`.

    Raises:
        Forbidden: it may not be listed.
        KubeError: the server gave no usable response.
    """
    if not await is_served(client, resource):
        return False
    for namespace in namespaces:
        await client.list_metadata(resource, namespace, limit=1)
    return True


def warn_not_served(resource: Resource[Any]) -> None:
    """Log that objects of a kind cannot be reconciled, and the remedy."""
    _log.warning(
        "kind.not_served",
        kind=resource.kind,
        remedy="install the definitions (manta crds | kubectl apply --server-side -f -; "
        "those of Workspaces are printed by manta crds --kind workspace)",
    )
