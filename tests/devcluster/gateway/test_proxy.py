"""The weighted proxy, with real sockets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from controller.kube.objects import Gateway, HTTPRoute
from devcluster.gateway_proxy import WeightedProxy
from tests.ports import free_port

pytestmark = pytest.mark.real_time


def gateway(port: int, name: str = "svc-gateway") -> Gateway:
    body = {
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {
            "gatewayClassName": "example",
            "listeners": [{"name": "http", "protocol": "HTTP", "port": port}],
        },
    }
    return msgspec.convert(body, Gateway)


def route(path: str = "/", **weights: int) -> HTTPRoute:
    backends = [{"name": name, "port": 8000, "weight": each} for name, each in weights.items()]
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": backends}
    body = {
        "metadata": {"name": "svc-httproute", "namespace": "default"},
        "spec": {"parentRefs": [{"name": "svc-gateway"}], "rules": [rule]},
    }
    return msgspec.convert(body, HTTPRoute)


class Place:
    """A proxy for one Gateway, and the pods behind Services."""

    def __init__(self) -> None:
        self.pods: dict[str, list[tuple[str, int]]] = {}
        self.proxy = WeightedProxy(self._endpoints, random.Random(5))
        self.port = free_port()
        self.url = ""
        self.runners: list[web.ServerRunner] = []

    def _endpoints(self, key: str, port: int) -> list[tuple[str, int]]:
        assert port == 8000
        return self.pods.get(key.removeprefix("default/"), [])

    async def apply(self, *routes: HTTPRoute) -> str:
        found = await self.proxy.apply({"default/svc-gateway": (gateway(self.port), routes)})
        listening = found["default/svc-gateway"]
        assert not listening.problem
        self.url = f"http://{listening.addresses[0]}:{self.port}"
        assert self.url in listening.remark
        return self.url

    async def pod(self, service: str, handler: Any) -> None:
        runner = web.ServerRunner(web.Server(handler))
        self.runners.append(runner)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.pods.setdefault(service, []).append(("127.0.0.1", port))


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    made = Place()
    try:
        yield made
    finally:
        await made.proxy.aclose()
        for runner in made.runners:
            await runner.cleanup()


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def says(text: str) -> Any:
    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=text)

    return handle


async def test_requests_are_divided_by_the_weights(place: Place):
    await place.pod("old", says("old"))
    await place.pod("new", says("new"))
    url = await place.apply(route(old=75, new=25))
    async with client() as session:
        counts = Counter([await (await session.get(url)).text() for _ in range(60)])
    assert counts["old"] + counts["new"] == 60
    assert 5 < counts["new"] < 25


async def test_a_pod_that_refuses_is_passed_over_and_a_service_without_pods_gives_503(place: Place):
    place.pods["old"] = [("127.0.0.1", free_port())]
    await place.pod("old", says("old"))
    url = await place.apply(route(old=100))
    async with client() as session:
        assert {await (await session.get(url)).text() for _ in range(10)} == {"old"}
        for pods, text in (
            ([("127.0.0.1", free_port())], "none of 1 ready endpoints of Service default/old"),
            ([], "no ready endpoint of Service default/old"),
        ):
            place.pods["old"] = pods
            refused = await session.get(url)
            assert refused.status == 503
            assert (await refused.text()).startswith(text)


async def test_a_broken_response_is_not_taken_for_a_whole_one(place: Place):
    async def break_off(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-length": "100"})
        await answer.prepare(request)
        await answer.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return answer

    await place.pod("old", break_off)
    url = await place.apply(route(old=100))
    async with client() as session:
        with pytest.raises(aiohttp.ClientError):
            await (await session.get(url)).read()


async def test_requests_that_no_route_matches_get_404(place: Place):
    await place.pod("old", says("old"))
    url = await place.apply(route("/fruit", old=1))
    async with client() as session:
        assert (await session.get(f"{url}/fruit/apple")).status == 200
        assert (await session.get(f"{url}/fruits")).status == 404


async def test_two_gateways_have_addresses_of_their_own(place: Place):
    port = place.port
    wanted = {f"default/{name}": (gateway(port, name), [route(old=1)]) for name in ("one", "two")}
    found = await place.proxy.apply(wanted)
    addresses = {each.addresses for each in found.values()}
    assert len(addresses) == 2
    await place.proxy.apply({})
    async with client() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://{found['default/one'].addresses[0]}:{port}")


async def test_others_on_this_machine_are_not_let_in(place: Place):
    place.proxy = WeightedProxy(
        lambda _key, _port: (), random.Random(1), lambda _peer, _here: False
    )
    url = await place.apply(route(old=1))
    async with client() as session:
        assert (await session.get(url)).status == 403
