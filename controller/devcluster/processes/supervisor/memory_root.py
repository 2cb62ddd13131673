"""The root of a container where no overlay is possible: assembled in memory, folder by folder.

The root is in memory and has this machine's folders bound into it. Where a folder needs a new entry
(a mount point, the hosts file), it is replaced by one in memory with the old entries bound into it,
so that nothing is ever created on the machine itself.
"""

from __future__ import annotations

import contextlib
import os

from controller.devcluster.processes.supervisor.container_dir import write
from controller.devcluster.processes.supervisor.kernel import (
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_REC,
    mount,
)


class MemoryRoot:
    """A root made of folders in memory.

    Args:
        apart: folders of this machine that the root does not have.
    """

    def __init__(self, apart: tuple[str, ...]) -> None:
        self._apart = apart
        self._memory: set[int] = set()

    def build(self, root: str) -> None:
        """Make the root at `root`, an empty folder."""
        self._fill(root, "/", self._apart)
        for folder in self._apart:
            os.makedirs(root + folder, exist_ok=True)

    def make_private(self, folder: str, without: tuple[str, ...] = ()) -> None:
        """Replace a folder of the root that has been entered; the old root is at `/.host`.

        Args:
            folder: the folder.
            without: names in it to create anew.
        """
        if os.stat(folder).st_dev not in self._memory:
            old = f"/.host{folder}"
            self._fill(folder, old, tuple(f"{old}/{name}" for name in without))

    def make_parent(self, path: str) -> None:
        """Make the folder in which `path` is to be, and let `path` be made in it."""
        parent = existing = os.path.dirname(path)
        while not os.path.isdir(existing):
            existing = os.path.dirname(existing)
        self.make_private(os.path.realpath(existing))
        os.makedirs(parent, exist_ok=True)

    def _fill(self, point: str, old: str, without: tuple[str, ...]) -> None:
        mount("tmpfs", point, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        self._memory.add(os.stat(point).st_dev)
        for entry in os.scandir(old):
            new = os.path.join(point, entry.name)
            if entry.path in without:
                continue
            with contextlib.suppress(OSError):  # what may not be seen is not there
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), new)
                    continue
                if entry.is_dir():
                    os.mkdir(new)
                else:
                    write(new, "")
                mount(entry.path, new, flags=MS_BIND | MS_REC)
