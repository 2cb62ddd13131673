"""A scenario with a fault at each write of its operator, which must come to the same everywhere.

See `forks`: the scenario is played once undisturbed, and at each write a forked process goes on
with a fault in that very place. Nothing else differs: same past, same times.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import pytest
from msgspec import Struct

from controller.testing.faults import JournalEntry, LostRequest, LostResponse, Rule
from tests.integration.forks import Forks
from tests.integration.harness import RunningOperator, World

T = TypeVar("T")


class Kill(Struct, frozen=True):
    """The operator is killed as it makes the write, or as it gets the answer; another starts."""

    applied: bool = True


Disturbance: TypeAlias = Kill | LostResponse | LostRequest

SHARDS = 8


def shards(number: int) -> Any:
    """Divide the places between so many runs: CI plays the first, and `make test` at most that."""
    return pytest.mark.parametrize(
        "shard",
        [
            pytest.param(
                shard,
                id=f"shard{shard}",
                marks=[pytest.mark.slow, pytest.mark.rare] if shard else [],
            )
            for shard in range(number)
        ],
    )


in_shards = shards(SHARDS)
"""Each shard takes every eighth place."""

at_each_kill = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Kill(applied=False), id="killed", marks=[pytest.mark.slow, pytest.mark.rare]),
        pytest.param(Kill(), id="killed-at-the-answer"),
    ],
)
"""A kill before a write is sent leaves what a kill at the answer to the write before it leaves. So
CI plays only the latter.
"""

at_each_loss = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(LostResponse(), id="answer-lost", marks=pytest.mark.slow),
        pytest.param(LostRequest(), id="request-lost", marks=[pytest.mark.slow, pytest.mark.rare]),
    ],
)
"""A write that was carried out unseen is the harder one; CI plays only that."""

at_each_fault = pytest.mark.parametrize("fault", [*at_each_kill.args[1], *at_each_loss.args[1]])


def writes(entry: JournalEntry) -> bool:
    return entry.attributes.writes


class Sweep(Forks[T]):
    """A scenario that is disturbed at each write, or at each occurrence for which a rule asks."""

    def disturb(
        self,
        fault: Disturbance,
        world: World,
        operator: RunningOperator,
        *,
        ours: Callable[[JournalEntry], bool] = writes,
        again: Callable[[], RunningOperator],
    ) -> None:
        """Have the fault happen at each write of ours; `again` starts an operator after a kill."""
        transport = operator.transport

        async def restart() -> None:
            await operator.kill()
            again()

        def strike(entry: JournalEntry) -> None:
            if not ours(entry) or not self.strikes():
                return
            if isinstance(fault, Kill):
                transport.sever()
                world.background(restart())
            else:
                transport.rules.append(Rule(fault, times=1))  # of this very request

        hooks = transport.on_answer if fault == Kill() else transport.on_request
        hooks.append(strike)

    async def comes_to(self, expected: T, scenario: Awaitable[T], *, more_than: int = 0) -> None:
        """Play the scenario, and require the same outcome with a fault at each of many places."""
        assert await self.play(scenario) == expected
        assert self.places > more_than
        assert self.all_but(expected) == {}

    def all_but(self, expected: T) -> dict[int, T | str]:
        """Return the places where a fault led to something else."""
        return {place: each for place, each in self.outcomes.items() if each != expected}
