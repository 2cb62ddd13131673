"""Schedules pods: binds them to nodes, or reports why they are not scheduled."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from controller.devcluster.nodes.components.timestamps import timestamp
from controller.devcluster.nodes.objects.pods import PODS, PodConditionType
from controller.devcluster.nodes.objects.statuses import (
    ConditionUpdate,
    status_patch,
    status_write,
    with_conditions,
)
from controller.kube.resources import NODES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from controller.devcluster.nodes.objects.pods import KubeletPod
    from controller.kube.client import Client

GATED = "SchedulingGated"
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


async def bind(client: Client, pod: KubeletPod, names: Sequence[str]) -> None:
    """Bind `pod` to one of the nodes `names`, chosen by its uid.

    Raises:
        controller.kube.errors.KubeError: it could not be bound.
    """
    meta = pod.metadata
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "target": {
            "apiVersion": NODES.api_version,
            "kind": NODES.kind,
            "name": names[zlib.crc32(meta.uid.encode()) % len(names)],
        },
    }
    path = PODS.path(meta.namespace, meta.name, "binding")
    await client.request_json("POST", path, body=binding)


async def report_unscheduled(
    client: Client, pod: KubeletPod, now: datetime, *, reason: str, message: str
) -> None:
    """Report on `pod` why it is not scheduled, unless that was already reported.

    Raises:
        controller.kube.errors.KubeError: the status could not be written.
    """
    present = pod.status.condition(PodConditionType.SCHEDULED)
    if present and (present.status, present.reason) == ("False", reason):
        return
    verdict = ConditionUpdate(
        PodConditionType.SCHEDULED, is_true=False, reason=reason, message=message
    )
    conditions = with_conditions(pod.status.conditions, (verdict,), timestamp(now))
    meta = pod.metadata
    change = status_patch(pod.status, replace(pod.status, conditions=conditions))
    patch = status_write(meta, change)
    await client.merge_patch(PODS, meta.namespace, meta.name, patch, subresource="status")
