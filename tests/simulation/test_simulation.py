"""Random lives of RayClusters under random faults.

One operator may never harm anything, see `referee.py`. Two operators at once, which only the lack
of leader election allows, must come to the right state and have two heads for a minute at most.

Each seed is one life, the same at every run. `MANTA_SIMULATION_SEEDS=17` or `100-199` replays
these instead of the committed ones; a failure says its seed, and what was done and when.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.simulation import simulation

pytestmark = pytest.mark.timeout(120)


def seeds(default: range) -> range:
    first, _, last = os.environ.get("MANTA_SIMULATION_SEEDS", "").partition("-")
    return range(int(first), int(last or first) + 1) if first else default


@pytest.mark.parametrize("seed", seeds(range(15)))
async def test_whatever_happens_to_one_operator_it_does_no_harm_and_comes_to_rest(seed: int):
    async with simulation(seed) as life:
        await life.run()
        assert life.referee.violations == [], "\n".join([f"seed {seed}", *life.user.said])


@pytest.mark.parametrize("seed", seeds(range(5)))
async def test_two_operators_for_some_seconds_come_to_the_right_state(seed: int):
    async with simulation(seed, overlapping=True) as life:
        await life.run()
        assert life.referee.violations == [], "\n".join([f"seed {seed}", *life.user.said])
        assert life.referee.two_heads < 60.0
