"""The process that cleans up after a cluster that was killed."""

from __future__ import annotations

import signal
from pathlib import Path

from controller.devcluster.processes.supervisor.container_dir import PASSED_ON
from controller.devcluster.processes.supervisor.lifeline import open_lifeline, wait_for_end


def reap(folder: str) -> int:
    """Wait for the end of the cluster of `folder`, and remove its remains."""
    for number in PASSED_ON:
        signal.signal(number, signal.SIG_IGN)
    try:
        lifeline = open_lifeline(f"{folder}/alive")
    except FileNotFoundError:
        return 0  # it has ended and cleaned up already
    wait_for_end(lifeline)
    from controller.devcluster.processes.machine.cluster_dir import clean_up_one  # noqa: PLC0415 - large

    clean_up_one(Path(folder))
    return 0
