"""The operator as `manta run` puts it together: all that it sends goes through one fence."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from controller.command.run import operator as module
from controller.command.run.election import elected
from controller.command.run.operator import operator_for
from controller.kube.authentication.credentials import StaticCredentials
from controller.kube.errors import NotSent
from controller.kube.resources import CONFIG_MAPS
from controller.ray.dashboard import DashboardActors
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from prometheus_client import CollectorRegistry

    from controller.runtime.leaderelection import ThreadedElection
    from controller.runtime.operator import Operator


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


async def test_LE14_an_operator_that_does_not_lead_sends_reads_alone(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(module, "HttpTransport", Wire)
    async with standby() as (operator, _):
        client: Any = operator.recorder._client
        with pytest.raises(NotSent, match="does not lead"):
            await client.create(CONFIG_MAPS, "default", {"metadata": {"name": "a"}})
        with pytest.raises(NotSent, match="no network"):
            await client.get(CONFIG_MAPS, "default", "a")
    assert set(Wire.sent) == {"GET"}


async def test_LE14_writes_events_and_commands_to_ray_have_the_fence_of_the_election(
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
