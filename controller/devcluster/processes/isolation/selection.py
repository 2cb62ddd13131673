"""Choosing how pods are kept apart: the best way that this machine permits, by trying it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from controller.devcluster.processes.isolation.cluster_dir import Host, clean_up, folder_of_clusters
from controller.devcluster.processes.isolation.namespaces import open_namespaces
from controller.devcluster.processes.isolation.self_test import try_out
from controller.devcluster.processes.isolation.shared import open_shared
from controller.devcluster.processes.isolation.shim import open_shim

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from controller.devcluster.processes.isolation.cluster_dir import Leftover
    from controller.devcluster.processes.isolation.protocols import Isolation, Mode

Wanted = Literal["auto", "namespaces", "shim", "shared"]
"""A mode, or the best that this machine permits."""


OPENERS: dict[Mode, Callable[[Host], Awaitable[Isolation]]] = {
    "namespaces": open_namespaces,
    "shim": open_shim,
    "shared": open_shared,
}
"""Ways to keep pods apart, the best first."""


class NoIsolation(Exception):  # noqa: N818 - it is a state of this machine
    """This machine does not permit what was asked for; the message says why."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """An isolation, and the machine's folder that it uses.

    Attributes:
        isolation: ready; close it at the end, which removes the folder too.
        host: the folder.
        refused: why each better mode was not taken.
        leftovers: what dead clusters had left, and was removed.
    """

    isolation: Isolation
    host: Host
    refused: dict[Mode, str]
    leftovers: list[Leftover]

    def sentences(self) -> list[str]:
        """What to print at start."""
        lines = [
            f"removed what a cluster of process {leftover.pid} had left behind"
            for leftover in self.leftovers
        ]
        lines += [
            f"isolation {mode!r} is not possible: {why}" for mode, why in self.refused.items()
        ]
        return [*lines, f"isolation {self.isolation.mode!r}: {self.isolation.description}"]


async def choose(wanted: Wanted = "auto", *, base: Path | None = None) -> Chosen:
    """Clean up what dead clusters left, and make the isolation wanted.

    Args:
        wanted: the mode.
        base: folder for the folders of clusters; that of this user unless told otherwise.

    Raises:
        NoIsolation: it is not possible on this machine.
        OSError: no folder can be made.
    """
    folder = base or folder_of_clusters()
    leftovers = await asyncio.to_thread(clean_up, folder)
    modes: list[Mode] = list(OPENERS) if wanted == "auto" else [wanted]
    refused: dict[Mode, str] = {}
    for mode in modes:
        host = Host(folder)
        try:
            isolation = await _tried(mode, host)
        except OSError as failure:
            refused[mode] = str(failure)
            await asyncio.to_thread(host.close)
        else:
            return Chosen(isolation, host, refused, leftovers)
    raise NoIsolation("; ".join(f"{mode}: {why}" for mode, why in refused.items()))


async def _tried(mode: Mode, host: Host) -> Isolation:
    isolation = await OPENERS[mode](host)
    try:
        await try_out(isolation, sys.executable)
    except BaseException:
        await isolation.aclose()
        raise
    return isolation
