"""A hundred Workspaces on a real API server, whose nodes come after a minute, and five workers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from controller.devcluster.karpenter import ClaimBehaviour
from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_CLAIMS, NodeClaim
from controller.kaito.workspace import WorkspaceKind
from controller.kube.source import ResourceSource
from controller.runtime.settings import Settings
from informers import Codec, SharedInformer, Tombstone
from tests.integration.harness import OPERATOR, World
from tests.integration.workspaces import Cloud, Workspaces, opened

pytestmark = [pytest.mark.real_only, pytest.mark.real_time, pytest.mark.timeout(600)]

CROWD = 100
WORKERS = 5
PENDING = 60.0


class ClaimWatcher:
    """The claims of one namespace's Workspaces, as a watch shows them.

    Attributes:
        created: the name of the Workspace and the time, by the claim's uid.
        marked: uids of claims that somebody has deleted.
    """

    def __init__(self, namespace: str) -> None:
        self.created: dict[str, tuple[str, float]] = {}
        self.marked: set[str] = set()
        self._namespace = namespace

    def on_add(self, obj: NodeClaim, *, initial: bool) -> None:
        del initial
        self._saw(obj)

    def on_update(self, old: NodeClaim, new: NodeClaim) -> None:
        del old
        self._saw(new)

    def on_delete(self, obj: NodeClaim | Tombstone[NodeClaim]) -> None:
        claim = obj.obj if isinstance(obj, Tombstone) else obj
        assert claim is not None
        self._saw(claim)
        self.marked.add(claim.metadata.uid)

    def _saw(self, claim: NodeClaim) -> None:
        marks = claim.metadata.labels or {}
        if marks.get(labels.WORKSPACE_NAMESPACE) != self._namespace:
            return
        about = marks.get(labels.WORKSPACE, ""), asyncio.get_running_loop().time()
        self.created.setdefault(claim.metadata.uid, about)
        if claim.metadata.terminating:
            self.marked.add(claim.metadata.uid)

    def times(self) -> list[float]:
        return sorted(time for _, time in self.created.values())


@asynccontextmanager
async def watched(world: World) -> AsyncIterator[ClaimWatcher]:
    """Watch claims as long as the block runs."""
    watcher = ClaimWatcher(world.namespace)
    observer = SharedInformer(
        "claims",
        ResourceSource(world.client("observer"), NODE_CLAIMS, ""),
        Codec(NodeClaim),
        clock=world.loop,
        rng=random.Random(1),
    )
    observer.add_handler(watcher)
    task = asyncio.create_task(observer.run())
    await observer.wait_for_sync()
    try:
        yield watcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Counters:
    """The metrics of an operator."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def __getitem__(self, name: str) -> float:
        """The sum of all samples of that name."""
        found = (sample for family in self.registry.collect() for sample in family.samples)
        return sum(sample.value for sample in found if sample.name == name)


@pytest.mark.vital
async def test_a_hundred_workspaces_wait_a_minute_for_nodes_and_hold_no_worker(
    world: World, record_property: Callable[[str, object], None]
):
    counters = Counters()
    async with (
        opened(world, Cloud(ClaimBehaviour(node_after=PENDING))) as spaces,
        watched(world) as claims,
    ):
        for number in range(CROWD):
            await spaces.create(f"w{number}")
        start(spaces, counters)
        await world.eventually(lambda: len(claims.created) >= CROWD, seconds=60, pause=0.1)
        times = claims.times()
        await world.settle(5)

        began = world.loop.time()
        await spaces.create("late")
        await world.eventually(lambda: len(claims.created) > CROWD, seconds=60, pause=0.01)
        late = claims.times()[-1] - began
        within = times[-1] - times[0]
        told = f"claims of {CROWD} Workspaces within {within:.1f} s, of one more in {late:.1f} s"
        record_property("told", told)

        await world.settle(5)
        before, held = counters["controller_runtime_reconcile_total"], set[float]()
        while world.loop.time() < times[0] + PENDING - 10:
            await world.settle(1)
            held.add(counters["controller_runtime_active_workers"])
        assert held == {0}
        assert counters["controller_runtime_reconcile_total"] == before

        for number in range(CROWD):
            await spaces.has_nodes(f"w{number}", seconds=120)
        await spaces.has_nodes("late", seconds=120)
        assert sorted(name for name, _ in claims.created.values()) == sorted(
            ["late", *(f"w{number}" for number in range(CROWD))]
        )
        assert claims.marked == set()


def start(spaces: Workspaces, counters: Counters) -> None:
    """Start an operator with five workers that serves Workspaces."""
    spaces.world.run_operator(
        WorkspaceKind(),
        agent=OPERATOR,
        rng=spaces.world.rng,
        settings=Settings(
            namespaces=(spaces.world.namespace,),
            workers=WORKERS,
            metrics_address="",
            health_address="",
        ),
        registry=counters.registry,
    )
