"""Selects the best isolation mode that this machine permits, by testing each."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from controller.devcluster.processes.isolation.namespaces import open_namespaces
from controller.devcluster.processes.isolation.self_test import self_test
from controller.devcluster.processes.isolation.shared import open_shared
from controller.devcluster.processes.isolation.shim import open_shim
from controller.devcluster.processes.machine.cluster_dir import ClusterDir, clean_up, clusters_dir

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from controller.devcluster.processes.machine.cluster_dir import Leftover
    from controller.devcluster.processes.machine.pod_sandbox import Isolation, Mode

IsolationOption = Literal["auto", "namespaces", "shim", "shared"]
"""An isolation mode, or `auto` for the best that this machine permits."""


OPENERS: dict[Mode, Callable[[ClusterDir], Awaitable[Isolation]]] = {
    "namespaces": open_namespaces,
    "shim": open_shim,
    "shared": open_shared,
}
"""Isolation modes, the best first."""


class IsolationUnavailable(Exception):  # noqa: N818 - it is a state of this machine
    """This machine does not permit the requested mode; the message says why."""


@dataclass(frozen=True, slots=True)
class SelectedIsolation:
    """An isolation, and the machine's folder that it uses.

    Attributes:
        isolation: ready; close it at the end, which removes the folder too.
        cluster_dir: the folder.
        refused: reasons why better modes were rejected.
        leftovers: remains of dead clusters, which were removed.
    """

    isolation: Isolation
    cluster_dir: ClusterDir
    refused: dict[Mode, str]
    leftovers: list[Leftover]

    def sentences(self) -> list[str]:
        """Return sentences to print at start."""
        lines = [
            f"removed what a cluster of process {leftover.pid} had left behind"
            for leftover in self.leftovers
        ]
        lines += [
            f"isolation {mode!r} is not possible: {why}" for mode, why in self.refused.items()
        ]
        return [*lines, f"isolation {self.isolation.mode!r}: {self.isolation.description}"]


async def select_isolation(
    wanted: IsolationOption = "auto", *, base: Path | None = None
) -> SelectedIsolation:
    """Clean up the remains of dead clusters, and open the requested isolation.

    Args:
        wanted: the mode.
        base: directory of the clusters' directories; the user's own by default.

    Raises:
        NoIsolation: the mode is not possible on this machine.
        OSError: no folder can be made.
    """
    folder = base or clusters_dir()
    leftovers = await asyncio.to_thread(clean_up, folder)
    modes: list[Mode] = list(OPENERS) if wanted == "auto" else [wanted]
    refused: dict[Mode, str] = {}
    for mode in modes:
        cluster_dir = ClusterDir(folder)
        try:
            isolation = await _open_and_test(mode, cluster_dir)
        except OSError as failure:
            refused[mode] = str(failure)
            await asyncio.to_thread(cluster_dir.close)
        else:
            return SelectedIsolation(isolation, cluster_dir, refused, leftovers)
    raise IsolationUnavailable("; ".join(f"{mode}: {why}" for mode, why in refused.items()))


async def _open_and_test(mode: Mode, cluster_dir: ClusterDir) -> Isolation:
    isolation = await OPENERS[mode](cluster_dir)
    try:
        await self_test(isolation, sys.executable)
    except BaseException:
        await isolation.aclose()
        raise
    return isolation
