"""Incremental upgrades through a real Istio: its Gateway, its routing, and kept connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from controller.kube.objects import Pod
from controller.kube.resources import GATEWAYS, HTTP_ROUTES
from devcluster.processes.isolation import build_library
from tests.integration.harness import cluster_of, is_ready, real_world
from tests.integration.incremental import ROUTE, incremental_manifest
from tests.integration.istio import CLASS, GATEWAY_NAME, Istio, running_istio, why_not
from tests.integration.rayservices import Services, serve_config, with_image
from tests.lab.control_plane import SERVERS, control_plane
from tests.lab.session import needs

pytestmark = [
    pytest.mark.real_only,
    pytest.mark.timeout(300),
    needs("istiod", "kubectl", *SERVERS),
    pytest.mark.skipif(bool(why_not()), reason=f"SKIP: {why_not()}"),
]

INTERVAL = 6
LAG = 2.0
"""Seconds that the route may take to Envoy, when nothing is counted."""

TOLERANCE = 15
"""Percentage points: Envoy draws the backend of each request."""

LEAST = 100
"""Answers that say something about the weights."""


@pytest.fixture(scope="module")
def istio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Istio]:
    with control_plane(tmp_path_factory.mktemp("plane")) as plane, running_istio(plane) as found:
        yield found


@dataclass
class Street:
    """The pods of a world that listen on this machine, and a client of its gateway.

    Attributes:
        istio: routes the requests.
        weight: that of the pending cluster as the status last had it, and when it was first seen.
        answered: answers of each cluster while a weight was in force.
        failures: requests that were not answered well.
    """

    istio: Istio
    services: Services
    weight: tuple[int, float] = (0, 0.0)
    answered: dict[int, Counter[str]] = field(default_factory=dict[int, Counter[str]])
    failures: list[str] = field(default_factory=list[str])
    _runners: dict[str, web.ServerRunner] = field(default_factory=dict[str, web.ServerRunner])

    async def listen_for_ever(self) -> None:
        """Listen for each pod of Ray, as its proxy does, as long as it is there."""
        try:
            while True:
                present = self.services.world.journal.present
                for uid, pod in list(present.items()):
                    if uid not in self._runners and cluster_of(pod) and pod.status.pod_ip:
                        self._runners[uid] = await self._listen(pod)
                for uid in self._runners.keys() - present.keys():
                    await self._runners.pop(uid).cleanup()
                await asyncio.sleep(0.05)
        finally:
            for runner in self._runners.values():
                await runner.cleanup()

    async def _listen(self, pod: Pod) -> web.ServerRunner:
        cluster = cluster_of(pod)

        async def answer(_request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(text=cluster, status=200 if self.services.serves(cluster) else 503)

        runner = web.ServerRunner(web.Server(answer), shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, self.istio.address_of(pod), 8000).start()
        return runner

    def gateway_pod(self) -> Pod | None:
        for pod in self.services.world.journal.present.values():
            if (pod.metadata.labels or {}).get(GATEWAY_NAME) and is_ready(pod):
                return pod
        return None

    async def ask_for_ever(self, address: str) -> None:
        """Ask the gateway on kept connections, about a hundred times a second."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=4)) as session:
            await asyncio.gather(*(self._ask(session, f"http://{address}/") for _ in range(4)))

    async def _ask(self, session: aiohttp.ClientSession, url: str) -> None:
        while True:
            asked = self.services.world.loop.time()
            try:
                async with session.get(url) as answer:
                    status, text = answer.status, await answer.text()
            except aiohttp.ClientError as error:
                status, text = 0, repr(error)
            weight, since = self.weight
            if status != 200:
                self.failures.append(f"{asked:.1f} s, weight {weight}: {status} {text}")
            elif since + LAG < asked:
                self.answered.setdefault(weight, Counter())[text] += 1
            await asyncio.sleep(0.03)

    async def watch_for_ever(self) -> None:
        """Follow the weights that the status tells."""
        while True:
            pending = (await self.services.status()).get("pendingServiceStatus") or {}
            weight = pending.get("trafficRoutedPercent", self.weight[0])
            if weight != self.weight[0]:
                self.weight = (weight, self.services.world.loop.time())
            await asyncio.sleep(0.1)


@pytest.fixture
async def street(istio: Istio) -> AsyncIterator[Street]:
    async with real_world(str(istio.plane.kubeconfig)) as world:
        street = Street(istio, Services(world))
        listening = asyncio.create_task(street.listen_for_ever())
        yield street
        await world.kill_operators()
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


async def test_an_upgrade_moves_the_requests_by_its_steps_and_loses_none(street: Street):
    services, world = street.services, street.services.world
    options = {"gatewayClassName": CLASS, "maxSurgePercent": 50, "stepSizePercent": 25}
    manifest = incremental_manifest(intervalSeconds=INTERVAL, **options)
    manifest["spec"]["rayClusterDeletionDelaySeconds"] = 5
    services.start_operator()
    await services.create(manifest)
    pod = await world.eventually(street.gateway_pod, seconds=60)
    with ExitStack() as stack:
        stack.enter_context(street.istio.envoy(pod, await build_library()))
        old = await services.serving(seconds=120)
        address = street.istio.address_of(pod)
        await world.eventually(lambda: answers(address), seconds=60)
        tasks = [
            asyncio.create_task(street.ask_for_ever(address)),
            asyncio.create_task(street.watch_for_ever()),
        ]
        await world.settle(5)
        edited = with_image(manifest, "rayproject/ray:2.99.0")
        edited["spec"]["serveConfigV2"] = serve_config("hello", replicas=2)
        await services.edit(edited)
        new = await services.taken_over(old, seconds=200)
        await world.settle(5 + LAG)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert not street.failures
    shares = {
        weight: round(100 * counts[new] / counts.total())
        for weight, counts in street.answered.items()
        if counts.total() >= LEAST
    }
    assert {0, 25, 50, 75, 100} <= shares.keys(), street.answered
    assert all(abs(share - weight) < TOLERANCE for weight, share in shares.items()), shares
    assert set().union(*street.answered.values()) == {old, new}


async def answers(address: str) -> bool:
    """Whether a ready cluster is behind the gateway."""
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(f"http://{address}/") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


async def test_what_istio_writes_to_gateway_and_route_is_no_reason_to_write(street: Street):
    services, world = street.services, street.services.world
    services.start_operator()
    await services.create(incremental_manifest(gatewayClassName=CLASS))
    await services.serving(seconds=120)

    async def is_programmed() -> bool:
        found = await world.user.get_raw(GATEWAYS, world.namespace, "svc-gateway")
        route = await world.user.get_raw(HTTP_ROUTES, world.namespace, ROUTE)
        parents = route.get("status", {}).get("parents", [])
        return is_true(found["status"], "Programmed") and all(
            is_true(each, "Accepted") and is_true(each, "ResolvedRefs") for each in parents
        )

    await world.eventually(is_programmed, seconds=60)
    await world.settle(5)
    requests = world.operators[-1].transport.journal.entries
    since = len(requests)
    await world.settle(15)
    assert not [each for each in requests[since:] if each.attributes.writes]


def is_true(status: dict[str, Any], kind: str) -> bool:
    return any((c["type"], c["status"]) == (kind, "True") for c in status["conditions"])
