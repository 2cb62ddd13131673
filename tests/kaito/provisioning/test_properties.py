"""Whatever is late, lost or repeated: never more claims than nodes, and never one in vain."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest

from controller.kaito.api.options import ClaimSettings
from controller.kaito.provisioning.claims import ClaimState
from tests.kaito.provisioning.world import World

STEPS = 60
PATIENT = ClaimSettings(hold=timedelta(days=1))
"""Parts of a set are not given back, however slow the rest is."""


def play(world: World, *, faults: bool) -> None:
    for _ in range(STEPS):
        match world.random.randrange(10):
            case 0 | 1 | 2:
                world.reconcile()
            case 3 | 4:
                world.deliver()
            case 5:
                world.resolve()
            case 6:
                world.restart()
            case 7:
                world.pass_time(world.random.choice([0.1, 5, 40, 700]))
            case _:
                advance(world, faults=faults)
        assert len(world.claims) <= world.target


def advance(world: World, *, faults: bool) -> None:
    """The provider does something to one claim."""
    if not world.claims:
        return
    name = world.random.choice(sorted(world.claims))
    state = world.claims[name].state
    if state is ClaimState.TERMINATING:
        world.remove(name)
    elif state is ClaimState.PENDING and world.random.random() < 0.5:
        world.set_state(name, ClaimState.READY)
    elif faults and state is not ClaimState.FAILED:
        fault = world.random.choice(["fails", "vanishes", "is deleted"])
        if fault == "fails" and state is ClaimState.PENDING:
            world.set_state(name, ClaimState.FAILED, "InsufficientCapacity")
        elif fault == "vanishes":
            world.remove(name)
        else:
            world.set_state(name, ClaimState.TERMINATING)


def make_all_ready(world: World) -> None:
    """Until the set is whole: the provider does its work, and time passes."""
    for _ in range(40):
        world.settle()
        for name, claim in list(world.claims.items()):
            if claim.state is ClaimState.TERMINATING:
                world.remove(name)
            elif claim.state is ClaimState.PENDING:
                world.set_state(name, ClaimState.READY)
        if sum(each.state is ClaimState.READY for each in world.claims.values()) == world.target:
            world.settle()
            return
        world.pass_time(660)
    raise AssertionError("the set is never whole")


def check_without_faults(seed: int, target: int) -> None:
    """Exactly as many claims are created as nodes are needed, and none is deleted."""
    world = World(Random(seed), target, settings=PATIENT)
    play(world, faults=False)
    make_all_ready(world)
    assert len(world.created) == target
    assert world.deleted == []
    assert world.commitment().complete


def check_with_faults(seed: int, target: int) -> None:
    """There are never more claims than nodes, no known name comes back, and then there is rest."""
    world = World(Random(seed), target)
    play(world, faults=True)
    make_all_ready(world)
    assert world.most <= target
    assert world.reborn == []
    world.pass_time(660)
    decision = world.settle()
    assert (decision.create, decision.delete, decision.confirm, decision.waits) == ((), (), (), ())
    assert decision.wake_at is None
    assert decision.commitment == world.commitment()


@pytest.mark.parametrize("target", [1, 2, 4])
@pytest.mark.parametrize("check", [check_without_faults, check_with_faults])
def test_whatever_is_late_lost_or_repeated(check: Callable[[int, int], None], target: int):
    for seed in range(12):
        check(seed, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", [1, 2, 3, 4])
@pytest.mark.parametrize("check", [check_without_faults, check_with_faults])
def test_whatever_is_late_lost_or_repeated_in_many_ways(
    check: Callable[[int, int], None], target: int
):
    for seed in range(100, 160):
        check(seed, target)
