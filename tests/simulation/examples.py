"""Examples that follow from a seed: hypothesis draws them, plays them and shrinks what fails."""

from __future__ import annotations

import time

from hypothesis import HealthCheck, Phase, given, seed, settings
from msgspec import Struct

from tests.simulation import strategies
from tests.simulation.cron_strategies import lives_of_crons
from tests.simulation.disruption_strategies import lives_of_disruptions
from tests.simulation.election_strategies import lives_of_elections
from tests.simulation.handover_strategies import lives_of_handovers
from tests.simulation.idle_strategies import lives_of_idle
from tests.simulation.restore_strategies import lives_of_restores
from tests.simulation.scenario import Scenario
from tests.simulation.simulation import play


class Figures(Struct, frozen=True):
    """How long the examples of one seed took, in seconds of this processor."""

    examples: int
    seconds: float
    longest: float
    transitions: int

    def __str__(self) -> str:
        return (
            f"{self.examples} examples, {self.seconds / self.examples:.2f} s each, the longest "
            f"{self.longest:.2f} s, {self.transitions // self.examples} transitions each"
        )


def try_examples(number: int, count: int, of: str = "rays") -> Figures:
    """Play the `count` examples of these `LIVES` that follow from the seed `number`."""
    times: list[float] = []
    transitions = 0

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(LIVES[of])
    def play_one(scenario: Scenario) -> None:
        nonlocal transitions
        began = time.process_time()
        result = play(scenario)
        times.append(time.process_time() - began)
        transitions += result.transitions
        assert not result.violations, report(number, count, of, scenario, result.violations)

    play_one()
    return Figures(len(times), sum(times), max(times), transitions)


def scenario_of(number: int, of: str = "clusters") -> Scenario:
    """The scenario that follows from a seed: one of ten, that with the most steps."""
    drawn: list[Scenario] = []

    @seed(number)
    @settings(max_examples=10, database=None, phases=[Phase.generate], deadline=None)
    @given(LIVES[of])
    def draw(scenario: Scenario) -> None:
        drawn.append(scenario)

    draw()
    return max(drawn, key=lambda scenario: len(scenario.steps))


def report(
    number: int, count: int, of: str, scenario: Scenario, violations: tuple[str, ...]
) -> str:
    """What went wrong, and how to see it again."""
    return "\n".join([
        *violations[:8],
        "",
        scenario.told(),
        "",
        f"again:       make simulate SEED={number} EXAMPLES={count} ARGS='--of={of}'",
        f"only this:   make simulate SCENARIO='{scenario.to_json()}'",
    ])  # fmt: skip


LIVES = {
    "rays": strategies.scenarios,
    "clusters": strategies.lives_of_clusters,
    "jobs": strategies.lives_of_jobs,
    "services": strategies.lives_of_services,
    "rolling": strategies.lives_of_rolling,
    "workspaces": strategies.lives_of_workspaces,
    "idle": lives_of_idle,
    "disruptions": lives_of_disruptions,
    "crons": lives_of_crons,
    "elections": lives_of_elections,
    "restores": lives_of_restores,
    "handovers": lives_of_handovers,
}
"""By what they are about; the first are of all kinds of Ray that run something."""
