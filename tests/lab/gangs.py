"""A real control plane that starts gangs, with simulated nodes and the operator, for others' tests.

python -m tests.lab.gangs KUBECONFIG

Writes the kubeconfig once all is there, and runs until it gets SIGTERM.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.integration.harness import real_world
from tests.integration.machines import Machines
from tests.integration.test_workload_scheduling import plane_with_gangs

OPERATOR = (
    *(sys.executable, "-m", "controller", "run", "--feature-gates=KubernetesWAS=true"),
    *("--metrics-address=0", "--health-address=0"),
)


async def serve(folder: Path, kubeconfig: Path) -> None:
    with plane_with_gangs(folder) as plane:
        async with real_world(str(plane.kubeconfig), components=frozenset()) as world:
            machines = Machines(world)
            await machines.add("first", "second", cpu="8")
            operator = await asyncio.create_subprocess_exec(
                *OPERATOR, "--kubeconfig", str(plane.kubeconfig)
            )
            try:
                shutil.copy(plane.kubeconfig, kubeconfig)
                await operator.wait()
                raise SystemExit("the operator has ended")
            finally:
                if operator.returncode is None:
                    operator.terminate()
                    await operator.wait()
                await machines.aclose()


async def main(kubeconfig: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="gangs-") as folder:
        task = asyncio.ensure_future(serve(Path(folder), kubeconfig))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await asyncio.gather(task, return_exceptions=False)


if __name__ == "__main__":
    try:
        asyncio.run(main(Path(sys.argv[1])))
    except asyncio.CancelledError:
        sys.exit(0)
