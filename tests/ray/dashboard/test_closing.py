"""Connections are closed by a job: until it has ended it is asked for often, and it is not left."""

from __future__ import annotations

import asyncio
import itertools
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller.ray.dashboard.commands import CommandDone, HeadCommand
from controller.ray.dashboard.own_job import CloseConnections
from controller.ray.dashboard.probes import ServeProbe
from tests.ray.dashboard.kit import HEAD, World, world
from tests.ray.dashboard.simulated import Course, SimulatedRay


def close(it: World, within: float) -> None:
    it.watch("ns/service", HEAD, ServeProbe())
    due, until = it.in_(within), it.in_(within + 25)
    command = CloseConnections("close-1", it.in_(within + 30), due, until, ends=True)
    it.dashboards.submit("ns/service", (HeadCommand(HEAD, command),))


async def test_a_job_of_a_minute_is_asked_for_every_four_seconds():
    async with world(SimulatedRay(drain_course=Course(pending=1.0, running=60.0))) as it:
        close(it, 60)
        await asyncio.sleep(60)
        assert it.outcome("close-1") is None
        await asyncio.sleep(6)
        assert it.outcome("close-1") == CommandDone()
        assert it.ray.job(HEAD, "manta-close-1") is None
        asked = [each.at for each in it.ray.asked if each.path.endswith("manta-close-1")]
        assert max(after - before for before, after in itertools.pairwise(asked)) < 5
        assert len(asked) < 22


# The program of the job, with a Ray and servers of this test.

RAY = """
import asyncio, threading, time
from uvicorn.server import Server
from grpc.aio._server import Rpc

class exceptions:
    class RayActorError(Exception): pass

class Lost:
    def __call__(self): raise exceptions.RayActorError

class Method:
    def __init__(self, proxy): self.remote = lambda do, *given: lambda: do(proxy, *given)

class Proxy:
    def __init__(self):
        loop, begun = asyncio.new_event_loop(), threading.Event()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        async def start():
            self.server, self.rpc = Server(), Rpc()
            self.tasks = asyncio.ensure_future(self.server.serve())
            self.others = asyncio.ensure_future(self.rpc.wait_for_termination())
            loop.call_soon(begun.set)
        asyncio.run_coroutine_threadsafe(start(), loop)
        begun.wait()
        self.__ray_call__ = Method(self)

class Gone:
    class __ray_call__:
        remote = staticmethod(lambda *given: Lost())

PROXIES = {"SERVE_PROXY_ACTOR-a": Proxy(), "X:SERVE_PROXY_ACTOR-b": Gone(), "OTHER": None}

class util:
    @staticmethod
    def list_named_actors(all_namespaces):
        return [{"name": name, "namespace": "serve"} for name in PROXIES]

def init(**given): pass
def get_actor(name, namespace): return PROXIES[name]
def get(call, timeout): return call()
"""
UVICORN = """
import asyncio, types

class Http:
    cycle = None
    def __init__(self, server, name): self.server, self.name = server, name
    def shutdown(self):
        print("closes", self.name, self.server.config.encoded_headers, flush=True)
        self.server.server_state.connections.discard(self)

class WebSocket(Http):
    def __getattribute__(self, name):
        if name == "cycle": raise AttributeError(name)
        return super().__getattribute__(name)

class Server:
    def __init__(self):
        self.config = types.SimpleNamespace(encoded_headers=[])
        self.server_state = types.SimpleNamespace(connections=set())
        self.server_state.connections |= {Http(self, "an idle one"), WebSocket(self, "a WebSocket")}
    async def serve(self):
        await self.main_loop()
    async def main_loop(self):
        await asyncio.sleep(100)
"""
GRPC = """
import asyncio

class Base:
    async def stop(self, grace): print("stops gRPC", 0 < grace < 60, flush=True)
    async def wait_for_termination(self): await asyncio.sleep(100)
"""


def run(
    folder: Path, *, due: float, until: float, ends: bool = True, uvicorn: str = "uvicorn/server.py"
) -> subprocess.CompletedProcess[str]:
    """Run the program, in which half a second makes a connection idle."""
    for name, text in (("ray/__init__.py", RAY), (uvicorn, UVICORN), ("grpc/aio/_server.py", GRPC)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "grpc/aio/_server.py").write_text(f"{GRPC}\nclass Rpc(Base): pass\n")
    now = datetime.now(UTC)
    times = (now + timedelta(seconds=each) for each in (due, until))
    command = CloseConnections("job", now, *times, ends=ends)
    words = shlex.split(command.submission.entrypoint)
    assert words[:2] == ["python", "-c"]
    program = words[2].replace("IDLE = 5.0", "IDLE = 0.5")
    return subprocess.run(
        [sys.executable, "-c", program, *words[3:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.real_time
def test_answers_close_connections_then_idle_ones_go_and_web_sockets_at_the_end(tmp_path: Path):
    done = run(tmp_path, due=5, until=60)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if "connections:" not in line]
    *first, last = said
    assert set(first) == {"closes an idle one [(b'connection', b'close')]", "stops gRPC True"}
    assert last == "closes a WebSocket [(b'connection', b'close')]"
    assert "connections: 0 0" in done.stdout.splitlines()[-1]


@pytest.mark.real_time
def test_a_cluster_that_may_serve_again_keeps_its_grpc_servers(tmp_path: Path):
    done = run(tmp_path, due=0, until=60, ends=False)
    assert done.returncode == 0, done.stderr
    assert "closes a WebSocket" in done.stdout
    assert "gRPC" not in done.stdout


@pytest.mark.real_time
def test_the_job_ends_in_time_whatever_is_open(tmp_path: Path):
    done = run(tmp_path, due=60, until=3)
    assert done.returncode == 0, done.stderr
    assert "closes a WebSocket" not in done.stdout


@pytest.mark.real_time
def test_the_job_fails_with_the_reason_where_a_proxy_is_another_server(tmp_path: Path):
    (tmp_path / "uvicorn").mkdir()
    (tmp_path / "uvicorn/server.py").write_text("from other.server import Server")
    done = run(tmp_path, due=0, until=60, uvicorn="other/server.py")
    assert done.returncode == 1
    assert "a proxy is no uvicorn server" in done.stderr.splitlines()[-1]
