"""Whatever is late, lost or repeated: one NodePool, with as many nodes as are missing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.kaito.provisioning.pool_world import PoolWorld

STEPS = 60


def play(world: PoolWorld, *, happens: Callable[[PoolWorld], None] = lambda _world: None) -> None:
    for _ in range(STEPS):
        match world.random.randrange(12):
            case 0 | 1 | 2 | 3:
                world.reconcile()
            case 4 | 5:
                world.deliver()
            case 6:
                world.resolve()
            case 7:
                world.restart()
            case 8:
                world.class_is_ready()
            case 9:
                happens(world)
            case _:
                world.karpenter()


def without_nodes(seed: int, target: int) -> None:
    """Exactly one pool is created, with as many nodes as are needed, and none is ever changed."""
    world = PoolWorld(Random(seed), target)
    play(world)
    world.settle()
    assert (world.created, world.deleted, world.sizes) == (["p-0"], [], [target])
    assert len(world.now.claims) == world.made == target


def with_nodes(seed: int, target: int) -> None:
    """Nodes come and go: one pool at most, which only grows, and never too few nodes in the end."""
    world = PoolWorld(Random(seed), target)
    play(world, happens=nodes_come_and_go)
    world.settle()
    assert len(world.created) <= 1
    assert world.deleted == []
    assert world.sizes == sorted(world.sizes)
    assert all(size <= target for size in world.sizes)
    commitment = world.commitment
    assert commitment.covered + commitment.replicas == target
    assert set(commitment.nodes) <= world.now.nodes.keys()


def nodes_come_and_go(world: PoolWorld) -> None:
    name = f"n{world.random.randrange(3)}"
    world.node(name, world.random.choice([True, True, False, None]))


def with_an_edit(seed: int, target: int) -> None:
    """After an edit there is one pool, for the new nodes, and never two at a time."""
    world = PoolWorld(Random(seed), target)
    play(world)
    world.template = "other"
    play(world)
    world.settle()
    assert world.now.pool is not None
    assert (world.now.pool.template, world.now.pool.replicas) == ("other", target)
    assert len(world.created) - len(world.deleted) == 1
    assert len(world.created) <= 2


CHECKS = [without_nodes, with_nodes, with_an_edit]


@pytest.mark.parametrize("target", [1, 2, 4])
@pytest.mark.parametrize("check", CHECKS)
def test_whatever_is_late_lost_or_repeated(check: Callable[[int, int], None], target: int):
    for seed in range(25):
        check(seed, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", [1, 2, 3, 4])
@pytest.mark.parametrize("check", CHECKS)
def test_whatever_is_late_lost_or_repeated_in_many_ways(
    check: Callable[[int, int], None], target: int
):
    for seed in range(100, 400):
        check(seed, target)
