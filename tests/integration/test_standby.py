"""Two `manta run` processes with one lease, on a real API server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.kube.errors import NotFound
from controller.kube.objects import KubeObject
from controller.kube.resources import PODS, Resource
from controller.kube.transport import Request, Response, parse_status, read_body
from tests.integration.harness import REAL_KUBECONFIG, World, cluster_of, is_ready

pytestmark = [pytest.mark.real_only, pytest.mark.timeout(240)]

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", KubeObject)


@asynccontextmanager
async def electing(world: World, name: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """An operator that competes for the lease of the test's namespace."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "controller", "run", f"--kubeconfig={REAL_KUBECONFIG}"),
            *(f"--namespace={world.namespace}", "--health-address=", "--metrics-address="),
            "--enable-leader-election",
            f"--leader-election-namespace={world.namespace}",
            stdout=output,
            stderr=output,
            env={**os.environ, "POD_NAME": name},
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


CLUSTERS = 100
"""Each of a head and two workers, created while the leader is killed."""

EXPIRES = 15 + 1.2 + 1
"""Seconds: of the lease, until a candidate has seen it renewed, and until the test looks."""

ALONE = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") == "1"
"""Whether nothing else is tested on this machine meanwhile."""

WITHIN = 20 if ALONE else 36
"""Seconds from the death of the leader to the last pod that it has left to create."""


class Term:
    def __init__(self, world: World) -> None:
        self.world = world

    async def holder(self) -> str:
        try:
            lease = await self.world.user.get_raw(
                LEASES, self.world.namespace, "ray-operator-leader"
            )
        except NotFound:
            return ""
        record: dict[str, Any] = lease["spec"]
        return record.get("holderIdentity", "").partition("_")[0]

    async def is_of(self, name: str) -> None:
        await self.world.becomes(self.holder, name, seconds=60, pause=0.2)


@pytest.mark.vital
async def test_a_standby_takes_over_from_a_killed_leader_and_makes_nothing_twice(
    world: World, tmp_path: Path
):
    journal, term = world.journal, Term(world)
    async with electing(world, "first", tmp_path / "first.log") as first:
        await term.is_of("first")
        async with electing(world, "second", tmp_path / "second.log"):
            await asyncio.sleep(5)
            await world.create_cluster(replicas=10)
            await world.eventually(lambda: journal.workers_created() >= 3, pause=0.001)
            first.kill()
            await world.eventually(lambda: len(journal.ready_workers()) == 10, seconds=40)
            assert await term.holder() == "second"
    assert journal.workers_created() == 10
    assert journal.workers_deleted() == 0
    assert journal.most_live_heads == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_standby_finishes_a_hundred_clusters_that_a_killed_leader_had_begun(
    world: World, tmp_path: Path, record_property: Callable[[str, object], None]
):
    journal, term = world.journal, Term(world)
    names = [f"cluster-{number}" for number in range(CLUSTERS)]
    async with electing(world, "first", tmp_path / "first.log") as first:
        await term.is_of("first")
        async with electing(world, "second", tmp_path / "second.log"):
            await asyncio.sleep(5)
            creating = asyncio.create_task(create_all(world, names))
            await world.eventually(lambda: len(journal.created) >= CLUSTERS, seconds=300)
            first.kill()
            died = world.loop.time()
            await term.is_of("second")
            taken = world.loop.time() - died
            begun = len(journal.created)
            await world.eventually(lambda: len(journal.created) > begun, pause=0.02)
            begins = world.loop.time() - died
            await creating
            await world.eventually(lambda: len(journal.created) >= 3 * CLUSTERS, seconds=300)
            pods = world.loop.time() - died
            await world.eventually(
                lambda: all(map(is_ready, journal.present.values())), seconds=300
            )
            ready = world.loop.time() - died
            left = 3 * CLUSTERS - begun
            record_property(
                "told",
                f"after the kill: lease {taken:.1f} s, first of {left} pods {begins:.1f} s, "
                f"last {pods:.1f} s, readiness {ready:.0f} s",
            )
            assert taken < EXPIRES
            assert begins - taken < 2
            assert pods < WITHIN
            assert await term.holder() == "second"
            await world.settle(5)
    assert {cluster_of(pod) for pod in journal.present.values()} == set(names)
    assert (len(journal.workers()), len(journal.present)) == (2 * CLUSTERS, 3 * CLUSTERS)
    assert (len(journal.created), journal.marked) == (3 * CLUSTERS, set())
    assert journal.most_live_heads == 1


async def create_all(world: World, names: list[str]) -> None:
    for first in range(0, len(names), 10):
        await asyncio.gather(*map(world.create_cluster, names[first : first + 10]))


@pytest.mark.vital
async def test_a_leader_that_was_frozen_beyond_its_lease_writes_nothing_more_and_ends(
    world: World, tmp_path: Path
):
    journal, term = world.journal, Term(world)
    async with electing(world, "first", tmp_path / "first.log") as first:
        await term.is_of("first")
        async with electing(world, "second", tmp_path / "second.log"):
            await asyncio.sleep(5)
            await world.create_cluster(replicas=10)
            await world.eventually(lambda: journal.workers_created() >= 3, pause=0.001)
            first.send_signal(signal.SIGSTOP)
            await term.is_of("second")
            await world.scale(6)
            first.send_signal(signal.SIGCONT)
            assert await asyncio.wait_for(first.wait(), 60) == 1
            await world.eventually(lambda: len(journal.ready_workers()) == 6, seconds=40)
            assert await term.holder() == "second"
    assert journal.most_live_heads == 1
    assert journal.workers_created() - journal.workers_deleted() == 6
    assert journal.workers_created() <= 10
    assert "does not lead" not in (tmp_path / "second.log").read_text()


async def test_a_stopped_leader_hands_the_lease_over_at_once(world: World, tmp_path: Path):
    journal, term = world.journal, Term(world)
    async with electing(world, "first", tmp_path / "first.log") as first:
        await term.is_of("first")
        async with electing(world, "second", tmp_path / "second.log"):
            await asyncio.sleep(5)
            first.terminate()
            assert await asyncio.wait_for(first.wait(), 60) == 0
            await world.create_cluster(replicas=1)
            await world.eventually(lambda: journal.workers_created() == 1, seconds=5)
            assert await term.holder() == "second"


# -- `manta run` as a process, killed with SIGKILL in the middle of its work, on a real API serve --


@asynccontextmanager
async def manta_run(world: World, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The operator as a process of its own; killed without warning at the end."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "controller", "run", f"--kubeconfig={REAL_KUBECONFIG}"),
            *(f"--namespace={world.namespace}", "--health-address=", "--metrics-address="),
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.vital
async def test_killed_again_and_again_while_scaling_it_makes_and_removes_just_the_difference(
    world: World, tmp_path: Path
):
    journal, log = world.journal, tmp_path / "manta.log"

    async def run_until(reached: Callable[[], object]) -> None:
        """Start the operator, and kill it at the moment at which something is reached."""
        async with manta_run(world, log) as process:
            await world.eventually(reached, seconds=90, pause=0.001)
            assert process.returncode is None, log.read_text()

    await world.create_cluster(replicas=1)
    await run_until(lambda: len(journal.ready_workers()) == 1)
    await world.scale(10)
    await run_until(lambda: journal.workers_created() >= 3)
    await run_until(lambda: len(journal.workers()) == 10)
    await world.scale(3)
    await run_until(lambda: journal.workers_deleted() >= 2)
    await run_until(lambda: len(journal.present) == 4)

    assert journal.workers_created() == 10
    assert journal.workers_deleted() == 7
    assert journal.most_live_heads == 1


# -- what `flow_control.pauses` relies on, at a real API server: the body tells who refused --------


TENANT = {"impersonate-user": "tenant"}
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
UID = "x-kubernetes-pf-flowschema-uid"


@pytest.mark.vital
async def test_priority_and_fairness_refuses_without_a_status_and_a_handler_with_one(world: World):
    try:
        await jail_the_tenant(world)
        refused = await world.eventually(lambda: refused_list(world), seconds=60, pause=1)
    finally:
        for path in ("flowschemas", "prioritylevelconfigurations"):
            await send(world, "DELETE", f"{FLOWS}/{path}/jail")
    assert parse_status(refused) is None
    assert 1 <= int(refused.headers["retry-after"]) <= 32

    evicted = await evict_beyond_the_budget(world)
    status = parse_status(evicted)
    assert status is not None
    assert (status.code, status.reason) == (429, "TooManyRequests")

    assert UID in refused.headers
    assert UID in evicted.headers, "the header is in every answer, so it tells nothing"


async def refused_list(world: World) -> Response | None:
    """One of many lists at once that was refused."""
    answers = await asyncio.gather(
        *(send(world, "GET", "/api/v1/pods", headers=TENANT) for _ in range(40))
    )
    return next((answer for answer in answers if answer.status == 429), None)


async def jail_the_tenant(world: World) -> None:
    """Let Priority and Fairness refuse what a certain user asks for."""
    limited = {
        "nominalConcurrencyShares": 0,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    everything = {
        "subjects": [{"kind": "User", "user": {"name": "tenant"}}],
        "resourceRules": [
            {
                "apiGroups": ["*"],
                "resources": ["*"],
                "verbs": ["*"],
                "namespaces": ["*"],
                "clusterScope": True,
            }
        ],
    }
    level = {"metadata": {"name": "jail"}, "spec": {"type": "Limited", "limited": limited}}
    schema = {
        "metadata": {"name": "jail"},
        "spec": {
            "matchingPrecedence": 5,
            "priorityLevelConfiguration": {"name": "jail"},
            "rules": [everything],
        },
    }
    assert (await send(world, "POST", f"{FLOWS}/prioritylevelconfigurations", level)).ok
    assert (await send(world, "POST", f"{FLOWS}/flowschemas", schema)).ok


async def evict_beyond_the_budget(world: World) -> Response:
    """The answer to an eviction that a disruption budget forbids."""
    pods = f"/api/v1/namespaces/{world.namespace}/pods"
    budgets = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets"
    labels = {"app": "kept"}
    container = {"name": "c", "image": "x"}
    pod = {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [container]}}
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await send(world, "POST", pods, pod)).ok
    await world.eventually(lambda: runs(world), seconds=30)  # no budget protects it before
    assert (await send(world, "POST", budgets, budget)).ok
    return await send(world, "POST", f"{pods}/p/eviction", eviction)


async def runs(world: World) -> bool:
    pod = await world.user.get_raw(PODS, world.namespace, "p")
    return pod["status"].get("phase") == "Running"


async def send(
    world: World,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """One request without pauses and retries."""
    fields = {"content-type": "application/json", **(headers or {})}
    data = None if body is None else json.dumps(body).encode()
    status, found, chunks = await world.transport.request(
        Request(method, path, headers=fields, body=data)
    )
    return Response(status, found, await read_body(status, chunks))
