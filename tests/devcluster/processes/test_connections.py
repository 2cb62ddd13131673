"""`exec`: commands in running containers."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest

from devcluster.apiserver.http import serve
from devcluster.apiserver.sessions import ERROR, RESIZE, STDERR, STDIN, STDOUT
from devcluster.apiserver.spdy import GOAWAY, Frame
from devcluster.apiserver.status import ApiError
from devcluster.connections import ProcessConnections
from tests.devcluster.spdy_client import upgraded

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

PATH = "/api/v1/namespaces/default/pods/a"


@asynccontextmanager
async def running(world, command: str = "sleep 60", **more):
    """A running pod, and the node's part of connections."""
    async with world.node():
        world.server.hooks.pod_connection = ProcessConnections(world.kubelet)
        await world.create(
            "a", {"name": "main", "image": "python", "command": ["sh", "-c", command], **more}
        )
        await world.until("a", lambda pod: pod.status.phase == "Running")
        yield world


class Client:
    """The client's end, with what it has received by channel."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
        self.received: dict[int, bytes] = {}
        self.changed = asyncio.Event()

    async def receive(self):
        return await self.sent.get()

    async def send(self, channel: int, data: bytes) -> None:
        self.received[channel] = self.received.get(channel, b"") + data
        self.changed.set()

    async def until(self, channel: int, text: bytes) -> None:
        async with asyncio.timeout(60):
            while text not in self.received.get(channel, b""):
                self.changed.clear()
                await self.changed.wait()

    @property
    def status(self):
        return json.loads(self.received[ERROR])


def session(world, subresource: str, *command: str, **query: str):
    return world.server.connect(f"{PATH}/{subresource}", query, {}, command)


async def executed(world, *command: str, messages=(), **query: str) -> Client:
    client = Client()
    for message in messages:
        client.sent.put_nowait(message)
    await asyncio.wait_for(session(world, "exec", *command, **query)(client), 60)
    return client


async def test_output_and_exit_code_of_a_command(world):
    async with running(world):
        client = await executed(world, "sh", "-c", "echo out; echo err >&2; exit 3")
        assert client.received[STDOUT] == b"out\n"
        assert client.received[STDERR] == b"err\n"
        assert client.status["reason"] == "NonZeroExitCode"
        assert client.status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
        assert (await executed(world, "true")).status["status"] == "Success"
        killed = await executed(world, "sh", "-c", "kill -9 $$")
        assert killed.status["details"]["causes"][0]["message"] == "137"


async def test_input_is_passed_on_to_its_end(world):
    async with running(world):
        large = b"x" * 300_000
        messages = [(STDIN, large), (STDIN, b"end"), (STDIN, b"")]
        client = await executed(world, "cat", messages=messages, stdin="true")
        assert client.received[STDOUT] == large + b"end"


async def test_a_terminal_has_the_size_of_the_clients(world):
    async with running(world):
        size = json.dumps({"Width": 123, "Height": 45}).encode()
        client = Client()
        running_session = asyncio.create_task(
            session(world, "exec", "sh", tty="1", stdin="1")(client)
        )
        for message in (
            (RESIZE, b"no size"),
            (RESIZE, b'{"Width": 70000}'),
            (RESIZE, size),
            (STDIN, b"stty size; tty; exit 4\n"),
        ):
            client.sent.put_nowait(message)
        await asyncio.wait_for(running_session, 60)
        assert b"45 123" in client.received[STDOUT]
        assert b"/dev/" in client.received[STDOUT]
        assert client.status["details"]["causes"][0]["message"] == "4"


async def test_a_command_is_killed_when_its_client_has_gone(world):
    async with running(world):
        client = Client()
        serving = asyncio.create_task(
            session(world, "exec", "sh", "-c", "echo started; exec sleep 1000")(client)
        )
        await client.until(STDOUT, b"started")
        client.sent.put_nowait(None)
        await asyncio.wait_for(serving, 60)
        assert ERROR not in client.received


async def test_what_does_not_run_is_refused(world):
    async with running(world):
        with pytest.raises(ApiError, match="container zz is not valid for pod a"):
            session(world, "exec", "ls", container="zz")
        with pytest.raises(ApiError, match="at least 1 command"):
            session(world, "exec")
        await world.delete("a")
        await world.gone("a")
        with pytest.raises(ApiError, match='pods "a" not found'):
            session(world, "exec", "ls")


async def test_a_role_must_allow_it(world):
    async with running(world):
        world.server.audit.authorizer = lambda asked: (
            (asked.verb, asked.resource) != ("create", "pods/exec")
        )
        with pytest.raises(ApiError, match='cannot create resource "pods/exec"'):
            session(world, "exec", "ls")


@pytest.mark.parametrize("version", ["v5", "v4"])
async def test_over_a_websocket_each_message_names_its_channel(world, version):
    async with running(world):
        http = await serve(world.server)
        url = f"ws://127.0.0.1:{http.port}{PATH}/exec?command=cat&stdin=1&stdout=1"
        protocol = f"{version}.channel.k8s.io"
        async with (
            aiohttp.ClientSession() as browser,
            browser.ws_connect(url, protocols=(protocol,)) as socket,
        ):
            assert socket.protocol == protocol
            await socket.send_bytes(b"\0hello")
            assert await asyncio.wait_for(socket.receive_bytes(), 60) == b"\1hello"
            if version == "v5":
                await socket.send_bytes(b"\xff\0")
                status = await asyncio.wait_for(socket.receive_bytes(), 60)
                assert (status[0], json.loads(status[1:])["status"]) == (ERROR, "Success")
        await http.aclose()


@asynccontextmanager
async def listening(world):
    http = await serve(world.server)
    yield http.port
    await http.aclose()


@asynccontextmanager
async def spdy(port: int, query: str, *streams: str):
    """A SPDY client with its streams open."""
    async with upgraded(port, f"{PATH}/exec?{query}", "v4.channel.k8s.io") as client:
        for number, kind in enumerate(streams):
            client.open(2 * number + 1, kind)
        yield client


async def test_over_spdy_each_channel_is_a_stream(world):
    async with running(world), listening(world) as port:
        query = "command=sh&command=-c&command=cat;echo+err>%262;exit+3&stdin=1&stdout=1&stderr=1"
        async with spdy(port, query, "error", "stdin", "stdout", "stderr") as client:
            large = b"x" * 300_000
            client.write(3, large)
            client.write(3, b"end", last=True)
            await client.until_ended(1, 3, 5, 7)
            assert client.data[5] == large + b"end"
            assert client.data[7] == b"err\n"
            assert json.loads(client.data[1])["details"]["causes"][0]["message"] == "3"
            client.put(Frame.farewell(7, 0))
            await asyncio.wait_for(client.is_cut.wait(), 60)


LEAVING: dict[str, bytes | None] = {
    "closes": b"",
    "says farewell": Frame.farewell(5, 0).encode(),
    "speaks no SPDY": b"\xff" * 8,
    "is cut": None,
}


async def test_a_command_that_reads_no_input_is_killed_when_its_client_leaves(world, tmp_path):
    async with running(world), listening(world) as port:
        for way, last in LEAVING.items():
            pid = tmp_path / way.replace(" ", "-")
            query = f"command=sh&command=-c&command=echo+$$>{pid};echo+up;exec+sleep+1000"
            streams = ("error", "stdin", "stdout")
            async with spdy(port, f"{query}&stdin=1&stdout=1", *streams) as client:
                client.write(3, b"unread")
                await client.until_data(5)
                if last is not None:
                    client.pieces.put_nowait(last)
                    await asyncio.wait_for(client.is_cut.wait(), 60)
            gone = f"while kill -0 $(cat {pid}); do sleep 0.02; done"
            assert (await executed(world, "sh", "-c", gone)).status["status"] == "Success", way


async def test_a_client_that_breaks_its_connection_breaks_no_other(world, caplog):
    async with running(world), listening(world) as port:
        query = "command=cat&stdin=1&stdout=1"
        async with spdy(port, query, "error", "stdin", "stdout") as client:
            async with spdy(port, query) as other:
                other.pieces.put_nowait(b"\x80" * 1000)
                await asyncio.wait_for(other.is_cut.wait(), 60)
                assert other.replies == [(GOAWAY, 0)]
            client.write(3, b"text", last=True)
            await client.until_ended(1, 3, 5)
            assert client.data[5] == b"text"
        assert not [one for one in caplog.records if one.levelname in {"ERROR", "WARNING"}]


async def test_without_an_upgrade_one_is_asked_for(world):
    async with running(world):
        http = await serve(world.server)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{http.port}") as plain:
            async with plain.post(f"{PATH}/exec?command=ls") as answer:
                assert answer.status == 400
                assert "Upgrade request required" in (await answer.json())["message"]
            async with plain.post(f"{PATH}/exec?command=ls&container=zz") as answer:
                assert "container zz is not valid" in (await answer.json())["message"]
            for protocol in ("v1.channel.k8s.io", "", "v4.channel.k8s.io"):
                upgrade = {
                    "Connection": "Upgrade",
                    "Upgrade": "SPDY/3.1" if protocol != "v4.channel.k8s.io" else "SPDY/2",
                    "X-Stream-Protocol-Version": protocol,
                }
                async with plain.post(f"{PATH}/exec?command=ls", headers=upgrade) as answer:
                    assert answer.status == 400
        await http.aclose()
