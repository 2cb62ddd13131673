"""The web page: who gets it, what it shows, and that nothing of it is taken for HTML."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDictProxy

from controller.command.status.page_server import OwnerOnly, PageServer
from controller.command.status.reading import KINDS, read
from controller.kube.resources import PODS, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from tests.fakes.monitoring import serving
from tests.integration.harness import World, example_cluster
from tests.integration.rays import Rays
from tests.integration.test_injected_containers import head_of, with_webhook
from tests.integration.test_status import ill_cluster

pytestmark = [pytest.mark.real_time, pytest.mark.embedded_only]

OWNER = {"Authorization": aiohttp.encode_basic_auth("dev", "the-token")}
EVIL = "<script>alert('pwned')</script>"


@asynccontextmanager
async def page(world: World, *more: Resource[Any]) -> AsyncIterator[aiohttp.ClientSession]:
    """The page of what there is now; `more` resources are read for it than those of Ray."""
    client = world.client("the-page")
    seen = await read(client, [*KINDS, PODS, *more], "")
    server = PageServer(
        0,
        read=lambda _: seen,
        client=client,
        access=OwnerOnly("the-token"),
        wall=world.wall,
        option="--page-port",
    )
    async with serving(server) as session:
        yield session


async def text(session: aiohttp.ClientSession, path: str, status: int = 200) -> str:
    async with session.get(path, headers=OWNER) as answer:
        assert answer.status == status, await answer.text()
        assert_safe(answer.headers)
        return await answer.text()


def assert_safe(headers: CIMultiDictProxy[str]) -> None:
    """No program, frame, address or style of elsewhere; nothing is kept by a proxy."""
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] in {"no-store", "private, max-age=600"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer another"},
        {"Authorization": "Basic !"},
        {"Authorization": "Basic ZGV2OmFub3RoZXI="},
        {"Authorization": "Digest the-token"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/page.css", "/rayclusters/default/a", "/nowhere"])
async def test_nothing_is_answered_without_the_token(
    world: World, path: str, headers: dict[str, str]
):
    async with page(world) as session, session.get(path, headers=headers) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
        assert_safe(answer.headers)


async def test_programs_send_the_token_as_kubernetes_wants_it(world: World):
    async with page(world) as session:
        headers = {"Authorization": "Bearer the-token"}
        async with session.get("/", headers=headers) as answer:
            assert answer.status == 200


async def test_a_cluster_that_is_not_ready_has_its_tree_its_first_cause_and_its_events(
    world: World,
):
    world.start_operator()
    cause = await ill_cluster(world)
    async with page(world) as session:
        overview = await text(session, "/")
        assert cause in html.unescape(overview)
        assert 'href="/rayclusters/default/example"' in overview
        assert 'href="/?kind=rayjobs"' in overview
        assert 'href="/?kind=workspaces"' not in overview  # which are not served
        found = await text(session, "/rayclusters/default/example")
    for words in (
        cause,
        "group workers: 0 of 2 ready",
        "head: 1 of 1 ready",
        "CreatedHeadPod",
        "HeadPodReady True",
        "port-forward service/example-head-svc 8265",
    ):
        assert words in html.unescape(found)
    for pod in (await world.user.list(PODS, world.namespace)).items:
        assert pod.metadata.name in found


async def test_a_job_that_is_gone_has_the_end_of_its_log(world: World):
    rays = Rays(world)
    await rays.create("train")
    lost = {
        "number": 1,
        "rayClusterName": "train-abcde",
        "startTime": "2026-01-01T00:00:00Z",
        "endTime": "2026-01-01T00:01:00Z",
        "result": "Failed",
        "reason": "AppFailed",
        "message": f"the job failed {EVIL}",
        "log": f"Traceback ...\nValueError: {EVIL}",
    }
    await world.user.merge_patch(
        RAYJOBS,
        world.namespace,
        "train",
        {"status": {"jobDeploymentStatus": "Failed", "attempts": [lost]}},
        subresource="status",
    )
    async with page(world) as session:
        found = await text(session, "/rayjobs/default/train")
    assert "AppFailed" in found
    assert "ValueError: &lt;script&gt;" in found
    assert "<script" not in found


@pytest.mark.parametrize(
    "path",
    [
        f"/?q={EVIL}",
        f"/?namespace={EVIL}",
        f"/?kind={EVIL}",
        f"/?state={EVIL}&live={EVIL}",
        "/?page=1e9",
        f"/rayclusters/default/example?log={EVIL}",
        "/rayclusters/default/example?log=gone",
    ],
)
async def test_what_an_address_says_is_no_html_either(world: World, path: str):
    await world.create_cluster()
    async with page(world) as session:
        found = await text(session, path)
    assert "<script" not in found
    assert "javascript:" not in found


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/secrets/default/a", "There is no page of secrets"),
        ("/rayclusters/default/gone", "There is no RayCluster gone in namespace default"),
        (f"/rayclusters/default/{EVIL.replace('/', '')}", "There is no RayCluster &lt;script"),
        ("/templates/page.css", "There is no page /templates/page.css"),
        ("/rayclusters/..%2f..%2fetc/passwd", "There is no RayCluster passwd"),
    ],
)
async def test_what_there_is_not_is_said(world: World, path: str, words: str):
    async with page(world) as session:
        assert words in await text(session, path, status=404)


async def test_secrets_in_a_log_are_not_shown(world: World, monkeypatch: pytest.MonkeyPatch):
    world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    pod = (await world.user.list(PODS, world.namespace)).items[0].metadata.name
    async with page(world) as session:
        unread = await text(session, f"/rayclusters/default/example?log={pod}")
        assert "There is no log: no kubelet" in unread

        async def leaky(*_: object, **__: object) -> str:
            return "connected with password=hunter2"

        monkeypatch.setattr("controller.kube.client.Client.read_log_tail", leaky)
        found = await text(session, f"/rayclusters/default/example?log={pod}")
    assert "hunter2" not in found
    assert "password=&lt;redacted&gt;" in found


async def test_the_log_is_that_of_ray_where_a_mesh_puts_its_container_first(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    with with_webhook(world):
        world.start_operator()
        await world.create_cluster()
        await world.eventually(world.is_ready)
    head = head_of(world).metadata.name
    read = list[object]()

    async def log(*_: object, container: object, **__: object) -> str:
        read.append(container)
        return "started"

    monkeypatch.setattr("controller.kube.client.Client.read_log_tail", log)
    async with page(world) as session:
        await text(session, f"/rayclusters/default/example?log={head}")
    assert read == ["ray-head"]


async def test_a_list_has_pages_a_search_and_states(world: World):
    for number in range(103):
        body = example_cluster(f"c-{number:03}")
        await world.user.create(RAYCLUSTERS, world.namespace, body)
    async with page(world) as session:
        first, last = await text(session, "/"), await text(session, "/?page=2")
        assert (first.count("<tr><td>default"), last.count("<tr><td>default")) == (100, 3)
        assert "page 1 of 2" in first
        assert "page=2" in first
        assert "raycluster/c-102" in last
        assert (await text(session, "/?q=C-10")).count("<tr><td>default") == 3
        assert "103 objects" in await text(session, "/?state=new")
        assert "There is none that fits" in await text(session, "/?state=ready")
        assert "There is none that fits" in await text(session, "/?kind=rayjobs")
