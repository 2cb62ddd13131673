"""What a `manta` whose pods are processes has on this machine, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from controller.command.development.rayenv import ray_environment
from devcluster.processes.cluster_dir import clusters_dir, tagged_processes
from tests.e2e.processes import until

needs_ray = pytest.mark.skipif(
    not ray_environment().is_complete(),
    reason="SKIP: no environment with Ray on this machine, nothing tried with real Ray: make ray",
)


class Traces(msgspec.Struct, frozen=True):
    """Everything on this machine by which the cluster of one `manta` could be known."""

    id: str

    def there(self) -> list[str]:
        root = clusters_dir() / self.id
        paths = [
            root,
            Path("/dev/shm") / f"manta-{self.id}",
            Path("/sys/class/net") / f"manta-{self.id}",
            *Path("/sys/class/net").glob(f"m{self.id}-*"),
            *Path("/run/netns").glob(f"*{self.id}*"),
        ]
        processes = [f"process {pid}" for pid, _ in tagged_processes(f"{root}/")]
        return processes + [str(path) for path in paths if path.exists()]

    def go(self) -> None:
        """Fail unless all is gone; the kernel takes a moment to remove links of ended pods."""
        until(lambda: not self.there(), seconds=10, why=lambda: str(self.there()))

    def processes(self) -> int:
        return len(list(tagged_processes(f"{clusters_dir() / self.id}/")))


def traces_of(pid: int) -> Traces:
    """Those of a running `manta`, as soon as it has any."""

    def found() -> str:
        for owner in clusters_dir().glob("*/owner"):
            try:
                if msgspec.json.decode(owner.read_bytes())["pid"] == pid:
                    return owner.parent.name
            except (OSError, msgspec.DecodeError):
                continue  # being written, or just removed
        return ""

    return Traces(until(found, seconds=60))


def summary_of(told: str) -> str:
    """The last paragraph of a demo, but for what it says to try next."""
    return told.partition("\n\nTry next: ")[0].rpartition("\n\n")[2]
