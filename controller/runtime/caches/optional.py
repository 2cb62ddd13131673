"""Finds out which resources the API server has, of those that it may lack."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from controller.kube.discovery import is_served
from controller.kube.errors import Forbidden, KubeError

if TYPE_CHECKING:
    from controller.kube.client import Client
    from controller.kube.resources import Resource

RETRY: Final = 2.0
"""Seconds between two attempts."""

_log = structlog.stdlib.get_logger("manta.caches")


async def wait_until_known(client: Client, resource: Resource[Any]) -> bool:
    """Whether the server serves it; asks until it responds. `Forbidden` counts as not served."""
    while True:
        try:
            return await is_served(client, resource)
        except Forbidden:
            return False
        except KubeError as error:
            _log.warning("discovery.failed", resource=str(resource), error=str(error))
            await asyncio.sleep(RETRY)


def warn_not_served(resource: Resource[Any]) -> None:
    """Log that objects of a kind cannot be reconciled, and the remedy."""
    _log.warning(
        "kind.not_served",
        kind=resource.kind,
        remedy="install the definitions (manta crds | kubectl apply --server-side "
        "-f -) and restart the operator",
    )
