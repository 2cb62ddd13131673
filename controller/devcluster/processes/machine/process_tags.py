"""Process tags: an environment variable that identifies a pod's processes.

It names the folder of the process's container. Descendants inherit it, whatever their session or
parent.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TAG_VARIABLE = "MANTA_CONTAINER_DIR"


def tagged_processes(prefix: str) -> Iterator[tuple[int, int]]:
    """Yield process ids and start times of the processes whose tag begins with `prefix`."""
    wanted = f"{TAG_VARIABLE}={prefix}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        pid = int(folder.name)
        started = started_at(pid)
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue  # it has ended, or belongs to another user
        if any(entry.startswith(wanted) for entry in environment.split(b"\0")):
            yield pid, started


def started_at(pid: int) -> int:
    """Return the start of the process, in ticks since boot; 0 if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])
