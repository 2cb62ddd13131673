"""The command line of a supervisor, and of the process that cleans up after a killed cluster.

It begins in an isolated interpreter, which has to be told where the package is.
"""

from __future__ import annotations

import sys

sys.path.insert(0, __file__.rsplit("/", 5)[0])

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controller.devcluster.processes.supervisor.container_dir import (
    PASSED_ON,
    open_lifeline,
    run_plain,
    wait_for_end,
)
from controller.devcluster.processes.supervisor.filesystem import read
from controller.devcluster.processes.supervisor.namespaces import (
    exec_namespaced,
    hold_namespaces,
    run_namespaced,
    try_namespaces,
)


def reap(folder: str) -> int:
    """Wait for the end of the cluster of `folder`, and remove its remains."""
    for number in PASSED_ON:
        signal.signal(number, signal.SIG_IGN)
    try:
        lifeline = open_lifeline(f"{folder}/alive")
    except FileNotFoundError:
        return 0  # it has ended and cleaned up already
    wait_for_end(lifeline)
    from controller.devcluster.processes.cluster_dir import clean_up_one  # noqa: PLC0415 - large

    clean_up_one(Path(folder), wait=True)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit status.

    The commands are `hold HOSTNAME LIFELINE pod|host`, `reap FOLDER`, `run FOLDER COMMAND...`,
    `exec FOLDER COMMAND...` and `try FOLDER`.
    """
    verb = arguments[0]
    if verb == "hold":
        return hold_namespaces(arguments[1], arguments[2], arguments[3] == "host")
    if verb == "reap":
        return reap(arguments[1])
    container: dict[str, Any] = json.loads(read(f"{arguments[1]}/container.json"))
    argv = arguments[2:]
    if verb == "try":
        return try_namespaces(container)
    if container["namespaced"]:
        return (
            run_namespaced(container, argv) if verb == "run" else exec_namespaced(container, argv)
        )
    return run_plain(container, argv, main=verb == "run")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
