"""The orders that a supervisor takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from controller.devcluster.processes.supervisor.container_dir import read
from controller.devcluster.processes.supervisor.hold_namespaces import hold
from controller.devcluster.processes.supervisor.reaper import guard
from controller.devcluster.processes.supervisor.run_namespaced import (
    exec_inside,
    run_inside,
    try_namespaces,
)
from controller.devcluster.processes.supervisor.run_plain import run_beside

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Obey an order; the exit status.

    The orders are `hold HOSTNAME LIFELINE pod|host`, `guard FOLDER`, `run ROOM COMMAND...`,
    `exec ROOM COMMAND...` and `try ROOM`.
    """
    verb = arguments[0]
    if verb == "hold":
        return hold(arguments[1], arguments[2], arguments[3] == "host")
    if verb == "guard":
        return guard(arguments[1])
    room: dict[str, Any] = json.loads(read(f"{arguments[1]}/room.json"))
    argv = arguments[2:]
    if verb == "try":
        return try_namespaces(room)
    if room["inside"]:
        return run_inside(room, argv) if verb == "run" else exec_inside(room, argv)
    return run_beside(room, argv, main=verb == "run")
