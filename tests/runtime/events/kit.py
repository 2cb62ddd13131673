"""A recorder of events over a client that keeps them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import EVENTS
from controller.runtime.plan import Event
from controller.runtime.recorder import Recorder
from tests.runtime.kit import status_error

META = ObjectMeta(name="p", namespace="ns", uid="uid-p", resource_version="7")


@dataclass
class Sink:
    script: Callable[[str, str], None] = lambda _verb, _name: None
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    seconds: float = 0.01
    flows: list[str] = field(default_factory=list)

    def for_flow(self, flow: str) -> Sink:
        self.flows.append(flow)
        return self

    async def create(self, resource: Any, namespace: str, body: Any) -> KubeObject:
        assert (resource, namespace) == (EVENTS, body["metadata"]["namespace"])
        name = body["metadata"]["name"]
        await self._called("create", name, body)
        if name in self.events:
            raise status_error(409, "AlreadyExists")
        self.events[name] = body
        return KubeObject()

    async def merge_patch(self, resource: Any, namespace: str, name: str, patch: Any) -> KubeObject:
        assert (resource, namespace) == (EVENTS, META.namespace)
        await self._called("patch", name, patch)
        if name not in self.events:
            raise status_error(404, "NotFound")
        self.events[name] = {**self.events[name], **patch}
        return KubeObject()

    async def _called(self, verb: str, name: str, body: Any) -> None:
        await asyncio.sleep(self.seconds)
        self.calls.append((verb, name, body))
        self.script(verb, name)

    @property
    def notes(self) -> list[str]:
        return [event["note"] for event in self.events.values()]

    @property
    def counts(self) -> list[int]:
        return [event.get("series", {}).get("count", 1) for event in self.events.values()]


@asynccontextmanager
async def recording(sink: Sink | None = None) -> AsyncIterator[tuple[Recorder, Sink]]:
    sink = sink or Sink()
    loop = asyncio.get_running_loop()
    recorder = Recorder(
        sink,  # type: ignore[arg-type]
        instance="pod-0",
        clock=loop,
        wall=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=loop.time()),
        rng=random.Random(1),
    )
    task = asyncio.create_task(recorder.run())
    yield recorder, sink
    recorder.stop()
    await task


def event(note: str = "it happened", *, reason: str = "Because") -> Event:
    return Event("Normal", reason, "Reconcile", note)
