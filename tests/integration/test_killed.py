"""`manta run` as a process, killed with SIGKILL in the middle of its work, on a real API server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.harness import REAL_KUBECONFIG, World

pytestmark = [pytest.mark.real_only, pytest.mark.timeout(240)]


@asynccontextmanager
async def manta_run(world: World, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The operator as a process of its own; killed without warning at the end."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "controller", "run", f"--kubeconfig={REAL_KUBECONFIG}"),
            *(f"--namespace={world.namespace}", "--health-address=", "--metrics-address="),
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.vital
async def test_killed_again_and_again_while_scaling_it_makes_and_removes_just_the_difference(
    world: World, tmp_path: Path
):
    journal, log = world.journal, tmp_path / "manta.log"

    async def run_until(reached: Callable[[], object]) -> None:
        """Start the operator, and kill it at the moment at which something is reached."""
        async with manta_run(world, log) as process:
            await world.eventually(reached, seconds=90, pause=0.001)
            assert process.returncode is None, log.read_text()

    await world.create_cluster(replicas=1)
    await run_until(lambda: len(journal.ready_workers()) == 1)
    await world.scale(10)
    await run_until(lambda: journal.workers_created() >= 3)
    await run_until(lambda: len(journal.workers()) == 10)
    await world.scale(3)
    await run_until(lambda: journal.workers_deleted() >= 2)
    await run_until(lambda: len(journal.present) == 4)

    assert journal.workers_created() == 10
    assert journal.workers_deleted() == 7
    assert journal.most_live_heads == 1
