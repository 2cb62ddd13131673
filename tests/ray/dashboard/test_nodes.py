"""Ray's nodes, and how they are drained."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.ray.dashboard import NoResponse, UnusableResponse
from controller.ray.dashboard.client import MAX_NODES, RayNode, RayNodes, nodes
from controller.ray.dashboard.commands import (
    CommandDone,
    CommandExpired,
    CommandRefused,
    HeadCommand,
)
from controller.ray.dashboard.own_job import DrainNodes
from controller.ray.dashboard.probes import NodesProbe
from controller.ray.dashboard.responses import JobInfo, JobStatus
from controller.ray.dashboard.transport import DashboardResponse
from devcluster.simulated_ray import NodePod
from tests.ray.dashboard.kit import HEAD, World, world
from tests.ray.dashboard.simulated import NEVER, Course, Fault, SimulatedRay, incarnation

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
POD = NodePod("worker", "10.88.0.5", CREATED)
OTHER = NodePod("other", "10.88.0.6", CREATED)
REFUSAL = (
    "Job entrypoint command failed with exit code 1, last available logs:\n"
    "Traceback (most recent call last):\n"
    "ImportError: cannot import name 'drain_node' from 'ray.scripts.scripts'\n"
)


def listing(*rows: dict[str, Any], total: int | None = None) -> DashboardResponse:
    result = {"total": len(rows) if total is None else total, "result": rows}
    body = {"result": True, "msg": "", "data": {"result": result}}
    return DashboardResponse(200, "application/json", json.dumps(body).encode())


def row(name: str, address: str = "10.88.0.5", **changes: Any) -> dict[str, Any]:
    return {"node_id": name, "node_ip": address, "state": "ALIVE", "start_time_ms": 1} | changes


# What the list means.


def test_a_node_that_joined_before_the_pod_was_created_is_another_pods():
    found = RayNodes.of([RayNode("id", "10.88.0.5", alive=True, started=CREATED)])
    assert found.at("10.88.0.5", CREATED - timedelta(seconds=1)) is not None
    assert found.at("10.88.0.5", CREATED + timedelta(seconds=1)) is None
    assert found.at("10.88.0.6", CREATED) is None


def test_a_node_of_unknown_age_belongs_to_the_pod_at_its_address():
    assert RayNodes.of([RayNode("id", "10.88.0.5", alive=True)]).at("10.88.0.5", CREATED)


def test_ten_thousand_nodes_are_read_at_once():
    rows = [row(f"{n:056x}", f"10.{n // 250}.{n % 250}.1") for n in range(MAX_NODES)]
    began = time.process_time()
    assert len(nodes(listing(*rows)).by_address) == MAX_NODES
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "answer",
    [
        listing(row("a"), total=2),
        listing(row("a", state="RESTING")),
        listing(row("a", state=None)),
        listing(row("a", node_id=7)),
        listing(row("a", node_ip=["10.88.0.5"])),
        listing(row("a", start_time_ms=10**18)),
        listing(row("a", start_time_ms=-(10**18))),
        listing({}),
        DashboardResponse(200, "application/json", b'{"result": true, "data": {"result": null}}'),
        DashboardResponse(200, "application/json", b'{"result": false, "data": {"result": null}}'),
        DashboardResponse(
            200, "application/json", b'{"result": true, "odd": ' + b"[" * 2000 + b"]" * 2000 + b"}"
        ),
        DashboardResponse(400, "application/json", b'{"result": false, "msg": "Given limit"}'),
        DashboardResponse(
            200,
            "application/json",
            listing(row("a")).body.replace(b'"result": true', b'"result": false'),
        ),
    ],
    ids=range(13),
)
def test_anything_but_a_whole_list_of_nodes_is_unknown(answer: DashboardResponse):
    with pytest.raises(UnusableResponse):
        nodes(answer)


# Draining.


def node_is_alive(it: World, pod: NodePod = POD) -> bool:
    seen = it.seen(probe=NodesProbe()).value
    assert isinstance(seen, RayNodes)
    node = seen.at(pod.address, CREATED)
    return node is not None and node.alive


def draining_world(**options: Any) -> Any:
    return world(SimulatedRay(pods=lambda _: (POD, OTHER), **options))


def drain(it: World, *pods: NodePod, within: float = 300.0) -> str:
    it.watch("ns/job", HEAD, NodesProbe())
    ids = tuple(pod.node_id for pod in pods or (POD,))
    until = it.in_(within)
    it.dashboards.submit("ns/job", (HeadCommand(HEAD, DrainNodes("drain-1", until, ids, until)),))
    return "drain-1"


async def test_an_idle_node_that_is_drained_is_dead_and_the_others_live():
    async with draining_world() as it:
        drain(it)
        await it.until(lambda: it.outcome("drain-1") is not None)
        assert it.outcome("drain-1") == CommandDone()
        await asyncio.sleep(10)
        assert not node_is_alive(it)
        assert node_is_alive(it, OTHER)


async def test_one_job_drains_all_nodes_and_leaves_no_trace_in_the_list_of_jobs():
    async with draining_world() as it:
        drain(it, POD, OTHER)
        await asyncio.sleep(60)
        assert it.ray.submissions() == it.ray.submissions("manta-drain-1") == 1
        assert it.ray.job(HEAD, "manta-drain-1") is None


async def test_a_job_that_failed_refuses_the_drain_and_stays_for_its_log():
    failing = Course(pending=1, running=2, result=JobStatus.FAILED, message=REFUSAL)
    async with draining_world(drain_course=failing) as it:
        drain(it)
        await asyncio.sleep(60)
        refused = it.outcome("drain-1")
        assert isinstance(refused, CommandRefused)
        assert refused.message == (
            "job manta-drain-1 is FAILED: "
            "ImportError: cannot import name 'drain_node' from 'ray.scripts.scripts'"
        )
        assert it.ray.job(HEAD, "manta-drain-1") is not None
        assert node_is_alive(it)


async def test_a_drain_whose_job_never_starts_expires_with_what_ray_says_of_it():
    async with draining_world(drain_course=Course(pending=NEVER)) as it:
        drain(it, within=120)
        await asyncio.sleep(130)
        expired = it.outcome("drain-1")
        assert isinstance(expired, CommandExpired)
        assert "job manta-drain-1 is PENDING: Job has not started yet." in expired.message
        assert it.ray.submissions() == 1


async def test_what_ray_says_of_a_job_is_bounded():
    failing = Course(pending=1, running=2, result=JobStatus.FAILED, message="x" * 100_000)
    async with draining_world(drain_course=failing) as it:
        drain(it)
        await asyncio.sleep(60)
        refused = it.outcome("drain-1")
        assert isinstance(refused, CommandRefused)
        assert len(refused.message) < 400


async def test_a_job_that_cannot_be_deleted_has_drained_all_the_same():
    class Client:
        async def job(self, job_id: str) -> JobInfo:
            return JobInfo(job_id, JobStatus.SUCCEEDED)

        async def delete(self, job_id: str) -> None:
            raise NoResponse(job_id)

    await DrainNodes("drain-1", CREATED, ("n1", "n2"), CREATED).send(Client())


async def test_a_drain_expires_while_the_head_does_not_answer():
    async with draining_world() as it:
        it.ray.fault(Fault.REFUSES)
        drain(it, within=60)
        await asyncio.sleep(90)
        assert isinstance(it.outcome("drain-1"), CommandExpired)


@pytest.mark.parametrize("fault", list(Fault))
async def test_faults_delay_a_drain_and_never_repeat_it(fault: Fault):
    async with draining_world() as it:
        it.ray.fault(fault)
        drain(it)
        await asyncio.sleep(20)
        it.ray.fault(None)
        await asyncio.sleep(60)
        assert it.outcome("drain-1") == CommandDone()
        assert it.ray.submissions() == 1


async def test_a_drain_ends_when_nobody_waits_for_it():
    async with draining_world(drain_course=Course(pending=NEVER)) as it:
        drain(it)
        await asyncio.sleep(10)
        it.leave()
        await asyncio.sleep(60)
        assert it.actors.statistics().commands == it.actors.statistics().actors == 0


async def test_the_nodes_stay_known_while_they_are_being_drained():
    async with draining_world() as it:
        it.watch("ns/job", HEAD, NodesProbe())
        await asyncio.sleep(5)
        it.ray.nodes_of(incarnation(HEAD)).work = {"worker": NEVER}
        drain(it)
        assert node_is_alive(it)


# The program of the job, with a Ray that notes what it is told.

RECORDING = """
import json

class drain_node:
    @staticmethod
    def callback(**given):
        print(json.dumps(given))
"""
OLD = "def stop(): pass"


def run(folder: Path, ray: str, until: datetime) -> subprocess.CompletedProcess[str]:
    """Run the program of the job beside a module that stands for Ray's."""
    scripts = folder / "ray" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "scripts.py").write_text(ray)
    words = shlex.split(DrainNodes("job", until, ("n1", "n2"), until).submission.entrypoint)
    assert words[0] == "python"
    return subprocess.run(
        [sys.executable, *words[1:]], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.real_time
def test_the_job_tells_ray_to_drain_each_node_until_the_deadline(tmp_path: Path):
    done = run(tmp_path, RECORDING, datetime.now(UTC) + timedelta(seconds=1000))
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["node_id"] for each in told] == ["n1", "n2"]
    assert {each["reason"] for each in told} == {"DRAIN_NODE_REASON_PREEMPTION"}
    assert all(900 < each["deadline_remaining_seconds"] <= 1000 for each in told)
    assert done.returncode == 0, done.stderr


@pytest.mark.real_time
def test_a_deadline_that_has_passed_leaves_no_time(tmp_path: Path):
    done = run(tmp_path, RECORDING, datetime.now(UTC) - timedelta(seconds=100))
    assert json.loads(done.stdout.splitlines()[0])["deadline_remaining_seconds"] == 0


@pytest.mark.real_time
def test_the_job_fails_with_the_reason_where_ray_cannot_drain(tmp_path: Path):
    done = run(tmp_path, OLD, datetime.now(UTC))
    assert done.returncode != 0
    assert "cannot import name 'drain_node'" in done.stderr.splitlines()[-1]


def test_a_job_for_a_thousand_nodes_is_a_command_that_a_shell_takes():
    ids = tuple(f"{number:056x}" for number in range(1000))
    assert (
        len(DrainNodes("job", CREATED, ids, CREATED).submission.entrypoint) < 1 << 17
    )  # MAX_ARG_STRLEN
