"""What a process has used, as Linux counts it."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab.running import running


class MeasuredProcess:
    """A child process."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._proc = Path(f"/proc/{child.pid}")

    def cpu_seconds(self) -> float:
        """Processor time of all its threads that are alive, to the nanosecond."""
        threads = self._proc.glob("task/*/schedstat")
        return sum(int(path.read_text().split()[0]) for path in threads) / 1e9

    def resident_mib(self) -> float:
        """Memory that is resident: its own, and pages of files."""
        status = (self._proc / "status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024

    def check(self) -> None:
        """Raise `SystemExit` if it has ended."""
        if self._child.poll() is not None:
            raise SystemExit(f"{self._child.args} ended with {self._child.returncode}")


@contextmanager
def measured(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Generator[MeasuredProcess]:
    """Run a program until the context ends; its output goes to a file."""
    with running(command, log, environment) as child:
        yield MeasuredProcess(child)
