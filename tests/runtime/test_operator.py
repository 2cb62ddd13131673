"""A whole operator with a toy kind, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.runtime.flock import FlockWorld


async def test_a_flock_gets_its_birds_and_then_costs_nothing(flocks: FlockWorld):
    operator = flocks.start()
    await flocks.create(size=10)
    await flocks.counted(10)
    assert flocks.birds == 10

    await flocks.settle(60)
    writes, reads = flocks.requests("create", "patch", "delete"), flocks.requests("get", "list")
    await flocks.settle(600)
    assert flocks.requests("create", "patch", "delete") == writes
    assert flocks.requests("get", "list") == reads
    assert await operator.stop() == 0


async def test_resizing_makes_and_removes_just_the_difference(flocks: FlockWorld):
    flocks.start()
    await flocks.create(size=3)
    await flocks.counted(3)
    await flocks.resize(7)
    await flocks.counted(7)
    await flocks.resize(2)
    await flocks.counted(2)
    assert (len(flocks.created), len(flocks.deleted)) == (7, 5)
