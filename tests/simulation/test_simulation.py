"""Random lives of RayClusters, RayJobs, RayServices, RayCronJobs and Workspaces, and their faults.

`make test` plays half of those of remembered bad luck, and CI the others. `make test-all` plays 100
of each other sort, of which CI plays ten; `make simulate` as many as it is told to.

One operator may never harm anything, see `referee.py`, nor may two with a lease. Two at once, which
only the lack of leader election allows, must come to the right state and have two heads for a
minute at most.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import structlog

from tests.simulation.examples import LIVES, scenario_of, try_examples
from tests.simulation.scenario import Scenario
from tests.simulation.simulation import play

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(900)]  # a failure is shrunk first

EXAMPLES = 10
"""Lives of a sort with one seed; CI plays the first seed of each sort, all others are rare."""

BAD_LUCK = msgspec.json.decode(
    Path(__file__).with_name("bad_luck.json").read_bytes(), type=dict[str, Scenario]
)
"""Lives that chance seldom draws, by what must be survived. Each is there for one guard of the
operator, or one excuse of the referee, and goes wrong when that is removed."""

SORTS = (
    "rays",
    "rolling",
    "workspaces",
    "idle",
    "disruptions",
    "crons",
    "elections",
    "restores",
    "handovers",
)

OF_ITS_OWN = sorted(LIVES.keys() - {"rays"})
"""Sorts of lives that are not made of others."""

DIGESTS = """\
from tests.simulation.test_simulation import OF_ITS_OWN, be_quiet, digest
be_quiet()
for of in OF_ITS_OWN:
    print("life", digest(3, of))
"""


def be_quiet() -> None:
    """Log nothing from now on."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What the operators of hundreds of examples log would fill the report of a failure."""
    before = structlog.get_config()
    be_quiet()
    yield
    logging.disable(logging.NOTSET)
    structlog.configure(**before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "of"),
    [
        pytest.param(seed, of, marks=[pytest.mark.rare] if seed else [])
        for of in SORTS
        for seed in range(10)
    ],
)
def test_whatever_happens_to_one_operator_it_does_no_harm_and_comes_to_rest(
    seed: int, of: str, record_property: Callable[[str, object], None]
):
    record_property("told", f"simulation of {of}, seed {seed}: {try_examples(seed, EXAMPLES, of)}")


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=[pytest.mark.slow] if number % 2 else [])
        for number, what in enumerate(BAD_LUCK)
    ],
)
def test_one_operator_survives_remembered_bad_luck(what: str):
    result = play(BAD_LUCK[what])
    assert result.violations == (), "\n".join(result.story)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_two_operators_for_some_seconds_come_to_the_right_state(seed: int):
    result = play(scenario_of(seed), overlapping=2.0 * seed)
    assert result.violations == (), "\n".join(result.story)
    assert result.two_heads < 60.0


def digest(seed: int, of: str) -> str:
    result = play(scenario_of(seed, of))
    return f"{result.transitions} {result.digest}"


@pytest.mark.slow
def test_a_scenario_is_the_same_life_in_every_process():
    lives: list[list[str]] = []
    for hash_seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", DIGESTS],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        lives.append([line for line in told.stdout.splitlines() if line.startswith("life ")])
    assert lives[0] == lives[1]
    assert len(lives[0]) == len(OF_ITS_OWN)
    assert all(int(line.split()[1]) > 20 for line in lives[0])
