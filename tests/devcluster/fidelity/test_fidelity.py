"""The embedded server answers as a real one does, on generated sequences of requests.

`MANTA_FIDELITY_SEQUENCES` says how many, `MANTA_FIDELITY_SEED` where to start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter

import pytest

from tests.devcluster.fidelity.compare import Difference, differences, shortened
from tests.devcluster.fidelity.generate import sequence
from tests.devcluster.fidelity.known import KNOWN
from tests.devcluster.fidelity.servers import embedded_player, real_player

SEQUENCES = int(os.environ.get("MANTA_FIDELITY_SEQUENCES", "1000"))
SEED = int(os.environ.get("MANTA_FIDELITY_SEED", "0"))
AT_ONCE = 12
COMPACTING = 10
REPORTED = 5


def test_a_seed_always_makes_the_same_sequence():
    assert sequence(7) == sequence(7)
    assert sequence(7) != sequence(8)


@pytest.mark.slow
@pytest.mark.real_time
async def test_a_server_is_as_itself():
    """Two embedded servers agree: what chance decides does not count as a difference."""
    fired: Counter[str] = Counter()
    async with embedded_player() as one, embedded_player() as other:
        for seed in range(25):
            assert not await differences(sequence(seed), one, other, fired)


@pytest.mark.vital
@pytest.mark.real_only
@pytest.mark.real_time
@pytest.mark.timeout(1800)
async def test_the_embedded_server_answers_as_a_real_one():
    fired: Counter[str] = Counter()
    failures: dict[int, Difference] = {}
    async with contextlib.AsyncExitStack() as stack:
        embedded = await stack.enter_async_context(embedded_player())
        real = await stack.enter_async_context(real_player())
        free = asyncio.Semaphore(AT_ONCE)

        async def compare(seed: int, *, compacts: bool = False) -> None:
            async with free:
                found = await differences(sequence(seed, compacts=compacts), embedded, real, fired)
            if found:
                failures[seed] = found[0]

        await asyncio.gather(*(compare(seed) for seed in range(SEED, SEED + SEQUENCES)))
        for seed in range(COMPACTING):
            await compare(-1 - seed, compacts=True)
        texts = [
            f"seed {seed}, {await shortened(failures[seed], embedded, real, fired)}"
            for seed in sorted(failures)[:REPORTED]
        ]
    assert not failures, f"{len(failures)} of {SEQUENCES} sequences differ\n" + "\n\n".join(texts)
    never = [known.name for known in KNOWN if not fired[known.name]]
    assert SEQUENCES < 1000 or not never, f"differences that are none any more: {never}"
