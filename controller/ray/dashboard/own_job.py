"""Commands that Manta carries out with a job of its own, because Ray has no request for them."""

from __future__ import annotations

import shlex
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from controller.ray.dashboard import (
    PURPOSE,
    DashboardError,
    JobSubmission,
    NotFinished,
    RefusedByRay,
)
from controller.ray.dashboard.client import DashboardClient
from controller.ray.dashboard.commands import Command
from controller.ray.dashboard.responses import JobStatus, NoSuchJob, last_line

# The job that lets Serve's proxies close their connections in order; Ray has no request for that.
#
# A draining proxy of Ray waits for its requests and is then killed with every connection that is
# kept open, so that a client loses the request that it has just sent. Here each answer says
# `Connection: close`, after which clients open their next connection where the service leads now.
#
# Measured with Ray 2.60, whose proxies are uvicorn servers: its headers are those that the option
# `headers` of uvicorn sets. A server of another kind is left alone.

CLOSING: Final = """
import asyncio, sys, time
import ray

IDLE = 5.0  # seconds: a client that asks meanwhile is answered and goes, any other asks nothing
HEADER = (b"connection", b"close")


def close(proxy, last, until, ends):
    loop = next(each for each in vars(proxy).values() if isinstance(each, asyncio.Task)).get_loop()
    memory = vars(proxy).setdefault("_manta", {"seen": {}, "rpc": {}})

    def servers():
        for task in asyncio.all_tasks(loop):
            waits = task.get_coro()
            while waits is not None:
                frame = getattr(waits, "cr_frame", None)
                if frame is not None and "self" in frame.f_locals:
                    yield frame.f_locals["self"]
                waits = getattr(waits, "cr_await", None)

    def over_http(server):
        headers, now = server.config.encoded_headers, time.monotonic()
        if HEADER not in headers:
            headers.append(HEADER)
            loop.call_later(max(0.0, until - time.time()), headers.remove, HEADER)
        present = list(server.server_state.connections)
        memory["seen"] = {each: memory["seen"].get(each, now) for each in present}
        for each in present:
            asks = hasattr(each, "cycle")  # a WebSocket does not
            if now > memory["seen"][each] + IDLE if asks else last:
                each.shutdown()  # a request that is under way gets its answer first
        return len(present)

    async def stopped(server):
        await asyncio.sleep(IDLE)
        await server.stop(max(0.0, until - time.time()))

    def over_grpc(server):
        if server not in memory["rpc"]:
            memory["rpc"][server] = loop.create_task(stopped(server))
        return int(not memory["rpc"][server].done())

    async def step():
        kinds = {each: {base.__module__ for base in type(each).__mro__} for each in servers()}
        web = [each for each, modules in kinds.items() if "uvicorn.server" in modules]
        rpc = [each for each, modules in kinds.items() if "grpc.aio._server" in modules and ends]
        if not web:
            raise LookupError("a proxy is no uvicorn server; its connections cannot be closed")
        return sum([*map(over_http, web), *map(over_grpc, rpc)])

    return asyncio.run_coroutine_threadsafe(step(), loop).result(20)


def left_on(call):
    try:
        return ray.get(call, timeout=30)
    except ray.exceptions.RayActorError:
        return 0


def close_all(due, until, ends, nodes=()):
    ray.init(address="auto", log_to_driver=False)
    due, left = max(due, time.time() + IDLE), [1]
    while any(left) and time.time() < until:
        proxies = [
            ray.get_actor(each["name"], namespace=each["namespace"])
            for each in ray.util.list_named_actors(all_namespaces=True)
            if "SERVE_PROXY_ACTOR" in each["name"]
            and (not nodes or each["name"].endswith(tuple(nodes)))
        ]
        last = time.time() > due
        calls = [each.__ray_call__.remote(close, last, until, ends) for each in proxies]
        left = [left_on(each) for each in calls]
        print(time.strftime("%X"), "connections:", *left, flush=True)
        time.sleep(1)
"""


_PROGRAM: Final = f"""{CLOSING}
close_all(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "ends")
"""


# The job that drains nodes; Ray's HTTP API has no request for that.
#
# Its program calls what `ray drain-node` calls, in one process for all nodes, because importing Ray
# takes a second of processor time.

REASON_MESSAGE: Final = "Manta replaces its pod"
"""Message for a drained node; Ray prefixes `Terminated due to preemption:`."""

_DRAINING_PROGRAM: Final = """
import sys, time
from ray.scripts.scripts import drain_node
for node in sys.argv[3:]:
    drain_node.callback(
        address=None,
        node_id=node,
        reason="DRAIN_NODE_REASON_PREEMPTION",
        reason_message=sys.argv[1],
        deadline_remaining_seconds=max(0, int(float(sys.argv[2]) - time.time())),
    )
"""


_SERVING: Final = f"""{_DRAINING_PROGRAM}{CLOSING}
import traceback
try:
    close_all(time.time() + 30, float(sys.argv[2]), True, sys.argv[3:])
except Exception:
    traceback.print_exc()  # the nodes drain all the same
"""


class OwnJob(Command):
    """A command that is done when its job has succeeded.

    The id of the job follows from that of the command, so a job that Ray already has is not
    submitted again, not even by another process of the operator. A job that succeeded is deleted. A
    job that failed is kept for its log, and the command is refused.
    """

    asks_often: ClassVar[bool] = True

    @property
    def job_id(self) -> str:
        """Submission id of the job."""
        return f"manta-{self.id}"

    @property
    @abstractmethod
    def program(self) -> tuple[str, ...]:
        """The program in Python, and its arguments."""

    @property
    def submission(self) -> JobSubmission:
        """The job."""
        entrypoint = shlex.join(("python", "-c", *self.program))
        return JobSubmission(entrypoint, self.job_id, metadata={PURPOSE: self.name})

    async def send(self, client: DashboardClient) -> None:
        """Implement `Command.send`."""
        job = await client.job(self.job_id)
        if isinstance(job, NoSuchJob):
            await client.submit(self.submission)
            raise NotFinished(f"job {self.job_id} was submitted")
        state = f"{job.status.value}: {last_line(job.message)}"
        if not job.status.terminal:
            raise NotFinished(f"job {self.job_id} is {state}")
        if job.status is not JobStatus.SUCCEEDED:
            raise RefusedByRay(f"job {self.job_id} is {state}")
        with suppress(DashboardError):
            await client.delete(self.job_id)


@dataclass(frozen=True, slots=True)
class DrainNodes(OwnJob):
    """Drain nodes. Done when Ray has accepted it; the nodes end later.

    It is refused by an old Ray, which cannot drain nodes.

    Attributes:
        nodes: ids of `RayNode`. One that is dead or unknown to Ray counts as drained.
        until: time at which remaining work is killed. Ray gets it and does not act on it.
        serving: whether Serve's proxies on them close their connections in order.
    """

    name: ClassVar[str] = "drain"

    nodes: tuple[str, ...]
    until: datetime
    serving: bool = False

    @property
    def program(self) -> tuple[str, ...]:
        """Implement `OwnJob.program`."""
        program = _SERVING if self.serving else _DRAINING_PROGRAM
        return program, REASON_MESSAGE, f"{self.until.timestamp():.0f}", *self.nodes


@dataclass(frozen=True, slots=True)
class CloseConnections(OwnJob):
    """Let the Serve proxies of a cluster close their connections in order.

    Done when none is left, or `until` has passed.

    Attributes:
        due: time from which WebSockets are closed too, with code 1012.
        until: time at which it ends in any case.
        ends: whether the cluster is deleted after that, so that gRPC servers are stopped: none of
            them could be started again.
    """

    name: ClassVar[str] = "close"

    due: datetime
    until: datetime
    ends: bool

    @property
    def program(self) -> tuple[str, ...]:
        """Implement `OwnJob.program`."""
        times = (f"{each.timestamp():.0f}" for each in (self.due, self.until))
        return _PROGRAM, *times, "ends" if self.ends else "stays"
