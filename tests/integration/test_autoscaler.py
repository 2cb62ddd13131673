"""Ray's autoscaler and the operator together: who dies is the autoscaler's choice alone.

The autoscaler is a model, see `tests/simulation/autoscaler.py`; both of its generations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import JournalEntry, Lag, Rule
from tests.integration.harness import RunningOperator, World, example_cluster
from tests.simulation.autoscaler import Autoscaler

pytestmark = pytest.mark.slow

GROUP = "workers"
LAG = 10.0

both = pytest.mark.parametrize("version", ["v1", "v2"])


class Scaled:
    """An autoscaled cluster, its autoscaler, and who was there before it shrank."""

    def __init__(self, world: World, version: str) -> None:
        self.world = world
        self.demand: dict[str, int] = {}
        self.named: list[str] = []
        self.autoscaler = Autoscaler(
            world.client("autoscaler"),
            world.namespace,
            "example",
            version=version,
            demand=self.demand,
            victims=self._choose,
        )
        self._version = version

    def _choose(self, replicas: list[tuple[str, ...]], count: int) -> list[tuple[str, ...]]:
        """The longest ready ones: those that an operator left to itself would keep."""
        present = self.world.journal.present.values()
        born = {p.metadata.name: p.metadata.creation_timestamp or "" for p in present}
        chosen = sorted(replicas, key=lambda names: (born.get(names[0], ""), names))[:count]
        self.named += [name for names in chosen for name in names]
        return chosen

    async def create(self, *, hosts: int = 1) -> None:
        body = example_cluster(replicas=1)
        body["spec"]["enableInTreeAutoscaling"] = True
        body["spec"]["autoscalerOptions"] = {"version": self._version}
        body["spec"]["workerGroupSpecs"][0]["numOfHosts"] = hosts
        self.demand[GROUP] = 1
        await self.world.user.create(RAYCLUSTERS, self.world.namespace, body)
        await self.world.eventually(self.world.is_ready, seconds=120)

    async def needs(self, workers: int, *, hosts: int = 1) -> None:
        """Let the load need so many replicas, until just as many are ready and asked for."""
        self.demand[GROUP] = workers

        async def reached() -> bool:
            await self.autoscaler.update()
            ready = len(self.world.journal.ready_workers())
            present = len(self.world.journal.present) - 1
            return ready == present == workers * hosts and await self.replicas() == workers

        await self.world.eventually(reached, seconds=400, pause=0.5)

    async def replicas(self) -> int:
        cluster = await self.world.user.get_raw(RAYCLUSTERS, self.world.namespace, "example")
        return cluster["spec"]["workerGroupSpecs"][0]["replicas"]

    @property
    def dead(self) -> list[str]:
        journal = self.world.journal
        return sorted(
            pod.metadata.name for uid, pod in journal.created.items() if uid in journal.marked
        )


@both
async def test_up_and_down_only_the_named_pods_die(world: World, version: str):
    world.start_operator()
    scaled = Scaled(world, version)
    await scaled.create()

    await scaled.needs(5)
    await scaled.needs(2)
    await scaled.needs(4)

    assert len(scaled.named) == 3
    assert scaled.dead == sorted(scaled.named)
    assert world.journal.workers_created() == 7
    assert scaled.autoscaler.returned == []


@both
@pytest.mark.embedded_only
async def test_under_watch_lag_there_is_neither_surplus_nor_a_wrong_death(
    world: World, version: str
):
    world.start_operator(rules=[Rule(Lag(LAG), "pods")])
    scaled = Scaled(world, version)
    await scaled.create()

    await scaled.needs(6)
    await scaled.needs(1)
    await scaled.needs(3)
    await world.settle(4 * LAG)

    assert scaled.dead == sorted(scaled.named)
    assert (len(scaled.named), world.journal.workers_created()) == (5, 8)
    assert scaled.autoscaler.returned == []


@both
@pytest.mark.embedded_only
async def test_an_operator_killed_at_each_of_its_writes_deletes_only_named_pods(
    world: World, version: str
):
    restarts = restart_at_every_write(world)
    scaled = Scaled(world, version)
    await scaled.create()

    await scaled.needs(4)
    await scaled.needs(1)
    await world.settle(4 * LAG)

    assert restarts() == 1 + 4 + 3  # head, workers, deletions
    assert scaled.dead == sorted(scaled.named)
    assert (len(scaled.named), world.journal.workers_created()) == (3, 4)
    assert scaled.autoscaler.returned == []


def restart_at_every_write(world: World) -> Callable[[], int]:
    """Operators that live until their first write is answered, but the answer is lost to them."""
    count = 0

    def start() -> None:
        operator = world.start_operator(rules=[Rule(Lag(LAG), "pods")])

        def strike(entry: JournalEntry) -> None:
            if entry.attributes.writes and entry.attributes.resource == "pods":
                operator.transport.sever()
                operator.transport.on_answer.clear()
                world.background(follow(operator))

        operator.transport.on_answer.append(strike)

    async def follow(operator: RunningOperator) -> None:
        nonlocal count
        count += 1
        await operator.kill()
        await asyncio.sleep(0.5)
        start()

    start()
    return lambda: count
