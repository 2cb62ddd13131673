"""What `kubectl logs` shows of simulated pods."""

from __future__ import annotations

import asyncio

import pytest

from devcluster.logs import SimulatedLogs
from tests.devcluster.apiserver.support import EmbeddedApi, pod

START = "2026-01-01T00:00:00Z"
RUNNING = {"state": {"running": {"startedAt": START}}, "image": "busybox:1"}
ENDED = {"state": {"terminated": {"startedAt": START, "finishedAt": START, "exitCode": 3}}}


@pytest.fixture
async def api():
    opened = EmbeddedApi()
    opened.namespace = "default"
    opened.server.hooks.pod_log = SimulatedLogs(opened.server)
    yield opened
    await opened.server.aclose()


async def runs(api, *names: str, status=RUNNING) -> None:
    """A pod whose containers have a status."""
    body = pod("a")
    body["spec"]["containers"] = [
        {"name": name, "image": "busybox:1", "args": ["sleep", "1"]} for name in names
    ]
    await api.create(api.path("pods"), body)
    await tell(api, *names, status=status)


async def tell(api, *names: str, status) -> None:
    statuses = [{"name": name} | status for name in names]
    change = {"status": {"containerStatuses": statuses}}
    await api.patch(api.path("pods", "a") + "/status", change)


async def log(api, **query: str) -> list[str]:
    answer = await api.get(api.path("pods", "a") + "/log", **query)
    return answer.text.decode().splitlines() if answer.status == 200 else [answer.message]


async def test_a_running_container_has_started(api):
    await runs(api, "main")
    started, words = await log(api)
    assert started.startswith("container main started on")
    assert words == "simulated, not run: sleep 1"
    assert await log(api, tailLines="1") == [words]
    assert await log(api, tailLines="1", timestamps="true") == [f"{START} {words}"]


async def test_an_ended_container_says_how(api):
    await runs(api, "main", status=ENDED)
    assert (await log(api))[-1] == "container main exited with code 3"


async def test_of_several_containers_one_must_be_named(api):
    await runs(api, "main", "side")
    (message,) = await log(api)
    assert message == "a container name must be specified for pod a, choose one of: [main side]"
    assert (await log(api, container="side"))[0].startswith("container side started")
    assert await log(api, container="x") == ["container x is not valid for pod a"]


async def test_what_has_not_started_has_no_log(api):
    waiting = {"state": {"waiting": {"reason": "ErrImagePull"}}}
    await runs(api, "main", status=waiting)
    assert await log(api) == ['container "main" in pod "a" is waiting to start: ErrImagePull']
    assert "not found" in (await log(api, previous="true"))[0]


async def test_a_followed_log_goes_on_until_the_container_ends(api):
    await runs(api, "main")
    following = asyncio.create_task(log(api, follow="true"))
    await asyncio.sleep(60)
    assert not following.done()
    await tell(api, "main", status=ENDED)
    assert (await following)[-1] == "container main exited with code 3"


async def test_a_followed_log_ends_with_its_pod(api):
    await runs(api, "main")
    following = asyncio.create_task(log(api, follow="true"))
    await asyncio.sleep(60)
    await api.delete(api.path("pods", "a"))
    assert len(await following) == 2
