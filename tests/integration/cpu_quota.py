"""A control group whose processes get a part of one CPU, as the kubelet gives a container with a
limit.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PERIOD = 100_000
"""Microseconds; the kubelet's."""

_GROUPS = Path("/sys/fs/cgroup")


@contextmanager
def cpu_quota(cores: float) -> Iterator[Callable[[int], None]]:
    """Give a function that puts a process, with all that it starts, under the quota.

    All of them must have ended with the block, or be the caller itself.
    """
    quota = str(int(cores * _PERIOD))
    unified = (_GROUPS / "cgroup.controllers").exists()
    group = (_GROUPS if unified else _GROUPS / "cpu") / f"manta-test-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    try:
        if unified:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(quota)
        yield lambda pid: _move(group, pid)
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            _move(group.parent, int(pid))
        group.rmdir()


def _move(group: Path, pid: int) -> None:
    (group / "cgroup.procs").write_text(str(pid))


def quotas_work() -> bool:
    """Whether this machine lets a process have a quota."""
    try:
        with cpu_quota(1.0) as put:
            put(os.getpid())
    except OSError:
        return False
    return True
