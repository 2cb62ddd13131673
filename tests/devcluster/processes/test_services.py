"""Services of an embedded cluster whose pods have networks of their own. Needs root."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import aiohttp
import pytest

from controller.kube.client import Client
from controller.kube.resources import SERVICES
from controller.kube.transport import Request
from devcluster.apiserver.http import serve
from devcluster.connections import Proxies
from devcluster.nodes import NodeSettings, run_nodes
from devcluster.nodes.components import Component, ComponentContext
from devcluster.processes.environment import Images
from devcluster.processes.kubelet import ComponentGroup, ProcessKubelet
from devcluster.processes.network import ServiceNetwork
from devcluster.processes.specification import SPECIFIED_PODS
from tests.devcluster.processes.conftest import PYTHON, World, wall
from tests.devcluster.processes.machines import needs_namespaces, opened

pytestmark = [pytest.mark.real_time, needs_namespaces]

_SERVER = """
import http.server, os, socket, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    heard = threading.Semaphore(0)
    def do_GET(self):
        if self.path == "/slow":
            self.send_response(200)
            self.end_headers()
            for number in range(3):
                self.wfile.write(b"%d\\n" % number)
                self.wfile.flush()
                self.heard.acquire()
            self.close_connection = True
            return
        if self.path == "/heard":
            self.heard.release()
        self.answer(f"{socket.gethostname()} {self.command} {self.path}")
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        seen = self.headers.get("authorization"), self.headers.get("x-note")
        self.answer(f"{self.path} {body} {seen}", status=202)
    def answer(self, text, status=200):
        self.send_response(status)
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *args):
        pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET
    def server_bind(self):
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "pod", 8000
Server(("", 8000), Handler).serve_forever()
"""


class Town(World):
    """A world whose node has the service network."""

    def more(self, context: ComponentContext, network: ServiceNetwork) -> list[Component]:
        """Further components."""
        del context, network
        return []

    @asynccontextmanager
    async def networked(self, isolation):
        http = await serve(self.server)

        def machine(context):
            network = self.network = ServiceNetwork(context, isolation, ("127.0.0.1", http.port))
            self.proxies = Proxies(network, random.Random(3))
            self.server.hooks.service_proxy = self.proxies.service_proxy
            self.server.hooks.pod_proxy = self.proxies.pod_proxy
            kubelet = ProcessKubelet(
                context,
                isolation=isolation,
                images=Images({"python": PYTHON}),
                outputs=self.outputs,
                root=self.folder,
                memory=self.folder / "memory",
            )
            return ComponentGroup(kubelet, network, *self.more(context, network))

        self.api_port = http.port
        async with run_nodes(
            Client(self.server, user_agent="nodes", clock=self.loop),
            clock=self.loop,
            wall=wall,
            rng=random.Random(2),
            settings=NodeSettings(),
            kubelet=machine,
        ):
            try:
                yield
            finally:
                await self.proxies.aclose()
                await http.aclose()

    async def serve(self, name: str, **more) -> str:
        """A pod that answers on port 8000, ready; its address."""
        probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1, "failureThreshold": 60}
        container = {
            "name": "main",
            "image": "python:3",
            "command": ["python", "-c", _SERVER],
            "ports": [{"name": "web", "containerPort": 8000}],
            "readinessProbe": probe,
        }
        await self.create(name, container, **more)
        pod = await self.until(name, lambda pod: pod.status.is_true("Ready"))
        return pod.status.pod_ip

    async def service(self, name: str, app: str, *, port: int = 80, **spec) -> str:
        """A service of port 80 for pods named `app`; its address."""
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "selector": {"app": app},
                "ports": [{"name": "http", "port": port, "targetPort": 8000}],
                **spec,
            },
        }
        return (await self.user.create(SERVICES, "default", body)).spec.cluster_ip

    async def start(self, name: str, script: str) -> None:
        container = {"name": "main", "image": "python:3", "command": ["python", "-c", script]}
        await self.create(name, container)

    async def run(self, name: str, script: str) -> str:
        await self.start(name, script)
        return await self.ended(name)

    async def ended(self, name: str, *, seconds: float = 60) -> str:
        pod = await self.until(
            name, lambda pod: pod.status.phase in {"Succeeded", "Failed"}, seconds=seconds
        )
        text = await self.said(name)
        assert pod.status.phase == "Succeeded", text
        return text

    async def said(self, name: str) -> str:
        status, _, chunks = await self.server.request(
            Request("GET", f"/api/v1/namespaces/default/pods/{name}/log")
        )
        text = b"".join([chunk async for chunk in chunks]).decode()
        assert status == 200, text
        return text

    async def ask(self, method: str, path: str, **more):
        url = f"http://127.0.0.1:{self.api_port}/api/v1/namespaces/default/{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, **more) as answer,
        ):
            return answer.status, await answer.text()


async def fetched(url: str) -> str:
    """What a URL answers, once somebody answers."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(60):
        while True:
            try:
                async with session.get(url) as answer:
                    return await answer.text()
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)


async def refused(ip: str, port: int) -> None:
    """Wait until connections are refused; before the address is held they go elsewhere."""
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection(ip, port)
            except ConnectionRefusedError:
                return
            writer.close()
            await writer.wait_closed()
            await asyncio.sleep(0.05)


@pytest.fixture
async def town(tmp_path):
    async with opened("namespaces") as isolation:
        town = Town(tmp_path)
        async with town.networked(isolation):
            yield town
        await town.server.aclose()


_FETCH = """
import urllib.request, sys, time
for attempt in range(300):
    try:
        print(urllib.request.urlopen("http://%s/x", timeout=60).read().decode())
        break
    except OSError as error:
        time.sleep(0.1)
else:
    sys.exit(str(error))
"""


@pytest.mark.slow
async def test_a_service_leads_to_the_ready_pods_from_pods_and_from_this_machine(town):
    address = await town.service("web", "one")
    await refused(address, 80)
    ip = await town.serve("one")
    assert await fetched(f"http://{address}/here") == "one GET /here"
    assert town.network.address("default", "web") == address
    assert not town.network.address("default", "other")
    assert await fetched(f"http://{ip}:8000/here") == "one GET /here"
    for number, name in enumerate(("web", "web.default", "web.default.svc.cluster.local", address)):
        assert await town.run(f"asker-{number}", _FETCH % name) == "one GET /x\n"
    await town.delete("one", grace=0)
    await town.gone("one")
    await refused(address, 80)


@pytest.mark.slow
async def test_connections_outlive_their_service(town):
    address = await town.service("web", "one")
    await town.serve("one")
    assert await fetched(f"http://{address}/here") == "one GET /here"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{address}/kept") as answer:
            assert await answer.text() == "one GET /kept"
        await town.user.delete(SERVICES, "default", "web")
        await asyncio.sleep(2)
        async with session.get(f"http://{address}/still") as answer:
            assert await answer.text() == "one GET /still"
    await refused(address, 80)


@pytest.mark.slow
async def test_a_headless_service_is_known_by_the_addresses_of_its_pods(town):
    await town.service("head", "one", clusterIP="None")
    ip = await town.serve("one")
    script = "import socket; print(socket.gethostbyname('head.default.svc.cluster.local'))"
    assert await town.run("asker", script) == f"{ip}\n"
    assert await town.run("asker-2", _FETCH % "head:8000") == "one GET /x\n"


@pytest.mark.slow
async def test_connections_are_spread_over_the_pods(town):
    address = await town.service("web", "one")
    await town.serve("one")
    body = {"metadata": {"labels": {"app": "one"}}}
    await town.serve("two")
    await town.user.merge_patch(SPECIFIED_PODS, "default", "two", body)
    seen = set()
    async with asyncio.timeout(60):
        while len(seen) < 2:
            seen.add((await fetched(f"http://{address}/")).split()[0])
    assert seen == {"one", "two"}


async def test_pods_reach_the_api_server_by_its_service_name(town):
    script = _FETCH.replace("/x", "/version") % f"kubernetes.default.svc:{town.api_port}"
    assert '"gitVersion"' in await town.run("asker", script)


@pytest.mark.slow
async def test_the_api_server_passes_requests_on_to_services_and_pods(town):
    address = await town.service("web", "one", port=8265)
    status, text = await town.ask("GET", "services/web:8265/proxy/x")
    assert (status, '"no endpoints available for service \\"web\\""' in text) == (503, True), text
    await town.serve("one")
    await fetched(f"http://{address}:8265")
    for target in ("services/web:8265", "services/web:http", "services/http:web:8265", "pods/one"):
        told = await town.ask("GET", f"{target}/proxy/deep/er/?a=1&b=x%20y")
        assert told == (200, "one GET /deep/er/?a=1&b=x+y"), target
    headers = {"authorization": "Bearer secret", "x-note": "kept"}
    told = await town.ask("POST", "pods/one:8000/proxy/in", data=b"body", headers=headers)
    assert told == (202, "/in body (None, 'kept')")
    status, text = await town.ask("GET", "services/web:99/proxy/")
    assert (status, "no service port 99" in text) == (503, True)
    status, text = await town.ask("GET", "pods/one:8001/proxy/")
    assert (status, "error trying to reach service" in text) == (503, True)
    assert (await town.ask("GET", "services/nobody/proxy/"))[0] == 404


@pytest.mark.slow
async def test_an_answer_comes_through_a_proxy_as_it_is_written(town):
    await town.serve("one")
    url = f"http://127.0.0.1:{town.api_port}/api/v1/namespaces/default/pods/one:8000/proxy"
    async with aiohttp.ClientSession() as session, session.get(f"{url}/slow") as answer:
        for number in range(3):
            assert await answer.content.readline() == b"%d\n" % number
            await fetched(f"{url}/heard")  # without it the pod writes no more
        assert await answer.content.read() == b""
