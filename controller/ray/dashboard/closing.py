"""Jobs of ours inside Ray: they close the connections of proxies and drain nodes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


# A job to submit to Ray: the body of `POST /api/jobs/`.

PURPOSE: Final = "manta.dev/purpose"
"""Metadata of Manta's own jobs, for readers of Ray's list of jobs."""


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """One job as Ray's job API accepts it.

    Attributes:
        entrypoint: shell command of the driver.
        submission_id: chosen by the caller and stored before the first call.
        runtime_env: Ray's runtime environment; not printed, because it may hold secrets.
        metadata: labels of the job in Ray.
        entrypoint_num_cpus: CPUs reserved for the driver.
        entrypoint_num_gpus: GPUs reserved for the driver.
        entrypoint_resources: other resources reserved for the driver, by name.
    """

    entrypoint: str
    submission_id: str
    runtime_env: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    entrypoint_num_cpus: float = 0
    entrypoint_num_gpus: float = 0
    entrypoint_resources: Mapping[str, float] = field(default_factory=dict[str, float])

    def body(self) -> dict[str, Any]:
        """Return the body of the request, without zero and empty values, as KubeRay sends it."""
        values: dict[str, Any] = {
            "runtime_env": dict(self.runtime_env),
            "metadata": dict(self.metadata),
            "entrypoint_num_cpus": self.entrypoint_num_cpus,
            "entrypoint_num_gpus": self.entrypoint_num_gpus,
            "entrypoint_resources": dict(self.entrypoint_resources),
        }
        given = {name: value for name, value in values.items() if value}
        return {"entrypoint": self.entrypoint, "submission_id": self.submission_id, **given}


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


@dataclass(frozen=True, slots=True)
class ConnectionsClosed:
    """The proxies have closed their connections, or the time for it has passed."""


def closing_submission(job_id: str, due: datetime, until: datetime, *, ends: bool) -> JobSubmission:
    """Return the job that closes the connections of all proxies of a cluster.

    Args:
        job_id: its submission id.
        due: time from which WebSockets are closed too, with code 1012.
        until: time at which the job ends, whatever is left.
        ends: whether the cluster serves no more, so that gRPC servers are stopped: none of them
            could be started again.
    """
    times = (f"{each.timestamp():.0f}" for each in (due, until))
    words = ("python", "-c", _PROGRAM, *times, "ends" if ends else "stays")
    return JobSubmission(shlex.join(words), job_id, metadata={PURPOSE: "close"})


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


@dataclass(frozen=True, slots=True)
class NodesDraining:
    """Ray puts no new work on these nodes, and ends each node when its work has ended.

    Attributes:
        count: number of nodes, including those that were already dead.
    """

    count: int


def drain_submission(
    job_id: str, nodes: Sequence[str], until: datetime, *, serving: bool = False
) -> JobSubmission:
    """Return the job that drains these nodes; those still working at `until` are killed.

    If they are `serving`, the proxies of Serve on them close their connections in order.
    """
    program = _SERVING if serving else _DRAINING_PROGRAM
    arguments = (REASON_MESSAGE, f"{until.timestamp():.0f}", *nodes)
    return JobSubmission(
        shlex.join(("python", "-c", program, *arguments)), job_id, metadata={PURPOSE: "drain"}
    )
