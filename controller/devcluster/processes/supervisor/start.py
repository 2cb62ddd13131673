"""The command line of a supervisor.

It begins in an isolated interpreter, which has to be told where the package is.
"""

from __future__ import annotations

import sys

sys.path.insert(0, __file__.rsplit("/", 5)[0])

import json
from collections.abc import Sequence
from typing import Any

from controller.devcluster.processes.supervisor.container_dir import run_plain
from controller.devcluster.processes.supervisor.filesystem import read
from controller.devcluster.processes.supervisor.namespaces import (
    exec_namespaced,
    hold_namespaces,
    run_namespaced,
    try_namespaces,
)


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit status.

    The commands are `hold HOSTNAME LIFELINE pod|host`, `run FOLDER COMMAND...`,
    `exec FOLDER COMMAND...` and `try FOLDER`.
    """
    verb = arguments[0]
    if verb == "hold":
        return hold_namespaces(arguments[1], arguments[2], arguments[3] == "host")
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
