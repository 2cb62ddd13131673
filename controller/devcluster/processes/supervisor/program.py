"""The command line of a supervisor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from controller.devcluster.processes.supervisor.container_dir import read
from controller.devcluster.processes.supervisor.hold_namespaces import hold_namespaces
from controller.devcluster.processes.supervisor.reaper import reap
from controller.devcluster.processes.supervisor.run_namespaced import (
    exec_namespaced,
    run_namespaced,
    try_namespaces,
)
from controller.devcluster.processes.supervisor.run_plain import run_plain

if TYPE_CHECKING:
    from collections.abc import Sequence


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
