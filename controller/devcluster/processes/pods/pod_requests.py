"""Reads a pod from the API server and removes it, with retries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from controller.devcluster.processes.specification.specification import PODS
from controller.kube.errors import KubeError, NotFound

if TYPE_CHECKING:
    from controller.devcluster.processes.specification.specification import SpecifiedPod
    from controller.kube.client import Client
    from controller.kube.objects import ObjectMeta

API_RETRY: Final = 2.0
"""Seconds to wait after a failure of the API server."""

_log = structlog.get_logger(__name__)


async def read_pod(client: Client, meta: ObjectMeta) -> SpecifiedPod | None:
    """Return the whole pod; None if it was removed."""
    while True:
        try:
            pod = await client.get(PODS, meta.namespace, meta.name)
        except NotFound:
            return None
        except KubeError as error:
            _log.debug("pod not read", pod=meta.key, error=repr(error))
            await asyncio.sleep(API_RETRY)
        else:
            return pod if pod.metadata.uid == meta.uid else None


async def remove_pod(client: Client, meta: ObjectMeta, vanished: asyncio.Event) -> None:
    """Delete the pod, whose containers have stopped, unless it has `vanished`."""
    while not vanished.is_set():
        try:
            await client.delete(PODS, meta.namespace, meta.name, uid=meta.uid, grace_seconds=0)
        except NotFound:
            return
        except KubeError as error:
            _log.debug("pod not removed", pod=meta.key, error=repr(error))
            await asyncio.sleep(API_RETRY)
        else:
            return
