"""Events about pods, as `kubectl describe pod` shows them; repeated ones are counted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource

if TYPE_CHECKING:
    from controller.devcluster.nodes.components import ComponentContext
    from controller.kube.objects import ObjectMeta

_EVENTS = Resource("", "v1", "events", "Event", KubeObject)
_MOST_REMEMBERED = 4096
_LONGEST_MESSAGE = 1024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Key:
    uid: str
    type: str
    reason: str
    message: str
    container: str


@dataclass(slots=True)
class _Series:
    meta: ObjectMeta
    name: str
    first: str
    last: str
    count: int = 0
    sent: int = 0


class PodEvents:
    """Collects events; `run` sends them. Events that cannot be sent are dropped.

    Args:
        context: client and time.
        node: name of the node.
    """

    def __init__(self, context: ComponentContext, node: str) -> None:
        self._client = context.client
        self._wall = context.wall
        self._node = node
        self._series: dict[_Key, _Series] = {}
        self._unsent: dict[_Key, None] = {}
        self._wake = asyncio.Event()
        self._stamp = 0

    def record(
        self, meta: ObjectMeta, kind: str, reason: str, message: str, *, container: str = ""
    ) -> None:
        """Record an event of a pod.

        Args:
            meta: the pod's metadata.
            kind: `Normal` or `Warning`.
            reason: a word.
            message: a sentence, cut if it is very long.
            container: path of the container in the pod, `spec.containers{main}`.
        """
        key = _Key(meta.uid, kind, reason, message[:_LONGEST_MESSAGE], container)
        now = rfc3339(self._wall())
        series = self._series.pop(key, None) or _Series(meta, self._name(meta.name), now, now)
        series.last = now
        series.count += 1
        self._series[key] = series
        self._unsent[key] = None
        while len(self._series) > _MOST_REMEMBERED:
            self._series.pop(next(iter(self._series)))
        self._wake.set()

    async def run(self) -> None:
        """Send events until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._unsent:
                key = next(iter(self._unsent))
                del self._unsent[key]
                series = self._series.get(key)
                if series is not None:
                    await self._send(key, series)

    async def _send(self, key: _Key, series: _Series) -> None:
        namespace, count = series.meta.namespace, series.count
        try:
            if series.sent:
                change = {"count": count, "lastTimestamp": series.last}
                await self._client.merge_patch(_EVENTS, namespace, series.name, change)
            else:
                await self._client.create(_EVENTS, namespace, self._body(key, series, count))
        except Exception as error:  # noqa: BLE001  a failed event must not stop pods
            _log.debug("event dropped", reason=key.reason, message=key.message, error=repr(error))
            self._series.pop(key, None)
        else:
            series.sent = count

    def _body(self, key: _Key, series: _Series, count: int) -> dict[str, Any]:
        meta = series.meta
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        }
        if key.container:
            about["fieldPath"] = key.container
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": meta.namespace},
            "involvedObject": about,
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
            "source": {"component": "kubelet", "host": self._node},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node,
            "firstTimestamp": series.first,
            "lastTimestamp": series.last,
            "count": count,
        }

    def _name(self, of: str) -> str:
        self._stamp = max(self._stamp + 1, int(self._wall().timestamp() * 1_000_000) * 1000)
        return f"{of}.{self._stamp:x}"
