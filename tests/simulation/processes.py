"""Operator processes of a life: one, or two with one lease, of which never more than one writes."""

from __future__ import annotations

import random
from collections.abc import Iterable

from msgspec import Struct
from prometheus_client import CollectorRegistry

from controller.kube.errors import KubeError
from controller.runtime.elector import (
    LEASES,
    ElectionMetrics,
    Elector,
    LeaseLock,
    election_client,
    new_lease,
)
from controller.runtime.settings import ElectionTiming
from controller.testing.faults import FaultyTransport, JournalEntry
from tests.integration.harness import RunningOperator, World
from tests.simulation.memory import Memory
from tests.simulation.wire import Wire

LEASE = "operators-of-life"
TIMING = ElectionTiming()
EVENTS = "events.events.k8s.io"


class MindfulElector(Elector):
    """A candidate whose operator is held to know from then on what there was when it won."""

    memory: Memory

    async def acquire(self) -> None:
        await super().acquire()
        self.memory.begin()


class Candidate(Struct, frozen=True, eq=False):
    """A process's part in the election, with a connection of its own."""

    elector: MindfulElector
    transport: FaultyTransport


class Process(Struct, frozen=True, eq=False):
    """An operator that runs."""

    operator: RunningOperator
    wire: Wire
    candidate: Candidate | None = None

    @property
    def leads(self) -> bool:
        return self.candidate is None or self.candidate.elector.is_leader()


def candidate_of(world: World, name: str, wire: Wire) -> Candidate:
    """A candidate that is not yet taking part."""
    transport = FaultyTransport(wire, clock=world.loop)
    client = election_client(transport, TIMING, user_agent=name, clock=world.loop)
    elector = MindfulElector(
        LeaseLock(client, world.namespace, LEASE),
        name,
        TIMING,
        now=world.loop.time,
        wall=world.wall,
        rng=random.Random(world.rng.random()),
        metrics=ElectionMetrics(CollectorRegistry(), LEASE),
    )
    return Candidate(elector, transport)


async def free_lease(world: World) -> None:
    """Have a lease that nobody holds."""
    body = new_lease(world.namespace, LEASE, "", 1, world.wall())
    await world.user.create(LEASES, world.namespace, body)


async def delete_lease(world: World) -> str:
    """Delete the lease, whoever holds it; return what the server said against it."""
    try:
        await world.user.delete(LEASES, world.namespace, LEASE)
    except KubeError as error:
        return str(error)
    return ""


def lapses(process: Process, entry: JournalEntry, alive: Iterable[Process]) -> list[str]:
    """What is wrong about a request of a process among those that are alive, as sentences."""
    about = entry.attributes
    if not about.writes or about.resource == EVENTS:
        return []
    what = f"{about.verb} of {about.resource} {about.name}"
    wrong = [] if process.leads else [f"{what} by an operator that does not lead"]
    if others := sum(each.leads for each in alive if each is not process and each.candidate):
        wrong.append(f"{what} while {others} others lead")
    return wrong
