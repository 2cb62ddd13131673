"""The operator as `manta run` puts it together: all that it sends goes through one fence."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.command import operator as module
from controller.command import run as election_module
from controller.command.operator import operator_for
from controller.command.run import elected
from controller.kube.credentials import StaticCredentials
from controller.kube.errors import NotSent
from controller.kube.resources import CONFIG_MAPS
from controller.ray.dashboard.actors import DashboardActors
from controller.runtime.election import ThreadedElection
from controller.runtime.operator import Operator
from controller.runtime.settings import Settings


class Wire:
    """A transport that notes what would be sent."""

    sent: list[str]

    def __init__(self, *_: Any, **__: Any) -> None:
        type(self).sent = []

    async def request(self, request: Any) -> Any:
        self.sent.append(request.method)
        raise NotSent("this is no network")

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("settings", [Settings(qps=2, burst=3), Settings()])
async def test_requests_are_limited_to_what_was_asked_for_and_else_not_at_all(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
):
    monkeypatch.setattr(module, "HttpTransport", Wire)
    credentials = StaticCredentials("http://127.0.0.1:1")
    loop = asyncio.get_running_loop()
    sent: list[float] = []

    async def ask(client: Any) -> None:
        with pytest.raises(NotSent, match="no network"):
            await client.create(CONFIG_MAPS, "default", {"metadata": {"name": "a"}})
        sent.append(round(loop.time() - began, 3))

    async with operator_for(credentials, settings, user_agent="", elect=None) as operator:
        began = loop.time()
        await asyncio.gather(*(ask(operator.recorder._client) for _ in range(6)))
    assert sent == ([0, 0, 0, 0.5, 1.0, 1.5] if settings.qps else [0] * 6)


@pytest.mark.real_time
async def test_the_election_has_a_thread_an_event_loop_and_connections_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
):
    asked, paths = threading.Event(), list[str]()
    opened: list[tuple[threading.Thread, asyncio.AbstractEventLoop]] = []

    class Own(Wire):
        def __init__(self, *_: Any, **__: Any) -> None:
            opened.append((threading.current_thread(), asyncio.get_running_loop()))

        async def request(self, request: Any) -> Any:
            paths.append(request.path)
            asked.set()
            raise NotSent("this is no network")

    monkeypatch.setattr(module, "HttpTransport", Wire)
    monkeypatch.setattr(election_module, "HttpTransport", Own)
    monkeypatch.setattr(election_module, "load_credentials", no_credentials)
    async with standby() as (_, election):
        acquiring = asyncio.create_task(election.acquire())
        assert await asyncio.to_thread(asked.wait, 10)
        acquiring.cancel()
        await election.aclose()
    ((thread, loop),) = opened
    assert thread.name == "leader election"
    lease = "/apis/coordination.k8s.io/v1/namespaces/n/leases/ray-operator-leader"
    assert set(paths) == {lease}, "the lease is KubeRay's"
    assert loop is not asyncio.get_running_loop()
    assert Wire.sent == [], "no lease goes over the operator's connections"


async def no_credentials(**_: Any) -> StaticCredentials:
    return StaticCredentials("http://127.0.0.1:1")


@asynccontextmanager
async def standby() -> AsyncGenerator[tuple[Operator, ThreadedElection]]:
    """An operator that takes part in an election and has not won it."""
    made: list[ThreadedElection] = []

    def elect(registry: CollectorRegistry) -> ThreadedElection:
        made.append(elected(registry, namespace="n", user_agent="", kubeconfig=None, context=None))
        return made[-1]

    credentials = StaticCredentials("http://127.0.0.1:1")
    async with operator_for(credentials, Settings(), user_agent="", elect=elect) as operator:
        yield operator, made[0]


async def test_an_operator_that_does_not_lead_sends_reads_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "HttpTransport", Wire)
    async with standby() as (operator, _):
        client: Any = operator.recorder._client
        with pytest.raises(NotSent, match="does not lead"):
            await client.create(CONFIG_MAPS, "default", {"metadata": {"name": "a"}})
        with pytest.raises(NotSent, match="no network"):
            await client.get(CONFIG_MAPS, "default", "a")
    assert set(Wire.sent) == {"GET"}


async def test_writes_events_and_commands_to_ray_have_the_fence_of_the_election(
    monkeypatch: pytest.MonkeyPatch,
):
    fences: list[Any] = []

    class Dashboards(DashboardActors):
        def __init__(self, *args: Any, fence: Any = None, **options: Any) -> None:
            fences.append(fence)
            super().__init__(*args, fence=fence, **options)

    monkeypatch.setattr(module, "DashboardActors", Dashboards)
    async with standby() as (operator, election):
        (writer,) = {each._executor._writer for each in operator.controllers.values()}
        fences += [writer._fence, operator.recorder._fence]
        assert fences == [election] * 3
