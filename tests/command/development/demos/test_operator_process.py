"""The operator's process is gone when the demo ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.command.development.demos import stage
from controller.command.development.demos.stage import OperatorProcess
from tests.fakes.clean_up import ends_in_a_cancelled_task

DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('deaf', flush=True); time.sleep(1000)"
)


@pytest.mark.real_time
async def test_one_that_does_not_end_is_killed_even_in_a_task_that_has_been_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stage, "_PATIENCE", 0.1)
    cluster: Any = SimpleNamespace(kubeconfig_cluster=dict, kubeconfig_user=dict)
    node: Any = SimpleNamespace(folder=tmp_path, environment_of=lambda _: {})
    operator = OperatorProcess(cluster, node)
    process = operator._process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", DEAF, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"deaf\n"
    try:
        assert await ends_in_a_cancelled_task(operator.aclose())
        assert process.returncode == -9
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
