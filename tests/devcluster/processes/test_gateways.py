"""Pods reach a Gateway of the embedded cluster by the name of its Service. Needs root."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from controller.kube.resources import CRDS, GATEWAYS, HTTP_ROUTES, SERVICES
from devcluster.gateway import (
    CONTROLLER_NAME,
    GATEWAY_CLASSES,
    GatewayController,
    gateway_api_definitions,
)
from devcluster.gateway_proxy import WeightedProxy
from devcluster.nodes.components import Component, ComponentContext
from devcluster.nodes.objects import ENDPOINT_SLICES
from devcluster.processes.network import ServiceNetwork
from tests.devcluster.processes.machines import needs_namespaces, opened
from tests.devcluster.processes.test_services import Town

pytestmark = [pytest.mark.real_time, pytest.mark.slow, needs_namespaces]

CLASS = "istio"
SERVICE = f"svc-gateway-{CLASS}"

_ASK_ON_ONE_CONNECTION = """
import http.client, sys, time
deadline = time.monotonic() + 150
while True:
    kept = http.client.HTTPConnection("%s", timeout=60)
    try:
        kept.connect()
        break
    except OSError:
        if time.monotonic() > deadline: raise
        time.sleep(0.1)
socket = kept.sock
before = ""
while time.monotonic() < deadline:
    kept.request("GET", "/x")
    answer = kept.getresponse()
    text = answer.read().decode()
    assert (answer.status, kept.sock) == (200, socket), (answer.status, text)
    print(text.split()[0], flush=True)
    if text.startswith("new") and before.startswith("new"):
        break
    before = text
    time.sleep(0.02)
"""


def gateway() -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "svc-gateway", "namespace": "default"},
        "spec": {
            "gatewayClassName": CLASS,
            "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}],
        },
    }


def backends(**weights: int) -> list[dict[str, Any]]:
    return [{"name": name, "port": 80, "weight": weight} for name, weight in weights.items()]


class GatewayTown(Town):
    """A world with the Gateway API, a class of ours, and its controller."""

    async def install(self) -> None:
        for definition in gateway_api_definitions():
            await self.user.create(CRDS, "", definition)
        made = {
            "apiVersion": GATEWAY_CLASSES.api_version,
            "kind": "GatewayClass",
            "metadata": {"name": CLASS},
            "spec": {"controllerName": CONTROLLER_NAME},
        }
        await self.user.create(GATEWAY_CLASSES, "", made)

    def more(self, context: ComponentContext, network: ServiceNetwork) -> list[Component]:
        proxy = WeightedProxy(network.endpoints, random.Random(4), network.admits)
        return [GatewayController(context, proxy)]


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[GatewayTown]:
    async with opened("namespaces") as isolation:
        town = GatewayTown(tmp_path)
        await town.install()
        async with town.networked(isolation):
            yield town
        await town.server.aclose()


async def told(town: Town, status: str, name: str = "svc-gateway") -> str:
    """The message of the Gateway's condition `Programmed`, once it has that status."""
    async with asyncio.timeout(60):
        while True:
            raw = await town.user.get_raw(GATEWAYS, "default", name)
            for each in raw.get("status", {}).get("conditions", ()):
                if (each["type"], each["status"]) == ("Programmed", status):
                    return each["message"]
            await asyncio.sleep(0.05)


async def changed(town: Town, plural: str, reached: Callable[[Any], Any]) -> None:
    """Wait until the object of the Service's name, or None, is as asked."""
    table = town.server.store.table(plural)
    async with asyncio.timeout(60):
        while True:
            stored = table.items.get(f"default/{SERVICE}")
            if reached(stored and stored.object):
                return
            await table.next_change()


async def test_a_pod_keeps_one_connection_to_the_service_of_a_gateway_while_weights_move(
    town: Town,
):
    for name in ("old", "new"):
        await town.service(name, name)
        await town.serve(name)
    await town.user.create(GATEWAYS, "default", gateway())
    route = {
        "apiVersion": HTTP_ROUTES.api_version,
        "kind": "HTTPRoute",
        "metadata": {"name": "svc-httproute", "namespace": "default"},
        "spec": {
            "parentRefs": [{"name": "svc-gateway"}],
            "rules": [{"backendRefs": backends(old=100, new=0)}],
        },
    }
    await town.user.create(HTTP_ROUTES, "default", route)
    await told(town, "True")
    await town.start("asker", _ASK_ON_ONE_CONNECTION % f"{SERVICE}.default.svc.cluster.local")
    async with asyncio.timeout(60):
        await town.phase("asker", "Running")
        while not (await town.said("asker")).startswith("old\n" * 20):  # noqa: ASYNC110 - a log
            await asyncio.sleep(0.1)
    patch = {"spec": {"rules": [{"backendRefs": backends(old=50, new=50)}]}}
    await town.user.merge_patch(HTTP_ROUTES, "default", "svc-httproute", patch)
    counts = Counter((await town.ended("asker")).split())
    assert counts.keys() == {"old", "new"}
    assert counts["new"] >= 2

    await town.user.delete(GATEWAYS, "default", "svc-gateway")
    for plural in ("services", "endpointslices.discovery.k8s.io"):
        await changed(town, plural, lambda found: not found)


async def test_what_people_change_of_the_service_of_a_gateway_is_put_back(town: Town):
    await town.user.create(GATEWAYS, "default", gateway())
    await told(town, "True")
    before = await town.user.get(SERVICES, "default", SERVICE)
    spec = {"ports": [{"name": "other", "port": 81}]}
    await town.user.merge_patch(SERVICES, "default", SERVICE, {"spec": spec})
    await changed(town, "services", lambda found: found["spec"]["ports"][0]["port"] == 80)
    after = await town.user.get(SERVICES, "default", SERVICE)
    assert after.spec.ports == before.spec.ports
    await town.user.merge_patch(ENDPOINT_SLICES, "default", SERVICE, {"endpoints": []})
    await changed(town, "endpointslices.discovery.k8s.io", lambda found: found["endpoints"])


async def test_a_gateway_leaves_a_service_of_its_name_alone_and_says_so(town: Town):
    await town.service(SERVICE, "one")
    await town.user.create(GATEWAYS, "default", gateway())
    assert "exists and is not this Gateway's" in await told(town, "False")
    await town.user.delete(SERVICES, "default", SERVICE)
    await told(town, "True")


async def test_a_gateway_whose_service_would_have_too_long_a_name_says_so(town: Town):
    made = gateway()
    made["metadata"]["name"] = "svc-" + "x" * 60
    await town.user.create(GATEWAYS, "default", made)
    assert "must be no more than 63" in await told(town, "False", made["metadata"]["name"])
