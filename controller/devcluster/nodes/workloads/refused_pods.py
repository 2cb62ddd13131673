"""Events about pods that a workload could not create, as upstream's controllers record them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.components.suffixes import suffix
from controller.devcluster.nodes.components.timestamps import timestamp
from controller.kube.errors import AlreadyExists, KubeError
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kube.client import Client

_EVENTS = Resource("", "v1", "events", "Event", KubeObject)


async def record_refusal(
    client: Client, resource: Resource[Any], workload: KubeObject, message: str, now: datetime
) -> None:
    """Record a `FailedCreate`; the same words again only move its time."""
    meta, moment = workload.metadata, timestamp(now)
    name = f"{meta.name}.{suffix(meta.uid, message)}"
    about = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
    }
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": meta.namespace},
        "involvedObject": about,
        "type": "Warning",
        "reason": "FailedCreate",
        "message": message,
        "source": {"component": f"{resource.kind.lower()}-controller"},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
    with suppress(KubeError):
        try:
            await client.create(_EVENTS, meta.namespace, body)
        except AlreadyExists:
            await client.merge_patch(_EVENTS, meta.namespace, name, {"lastTimestamp": moment})
