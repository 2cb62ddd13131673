"""The location of the environment with Ray, and the variables of its processes."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from controller.command.development.runs import cache_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.progress import TaskID


# Shows the progress of creating an environment: a bar on a terminal, plain lines elsewhere.


class ProgressDisplay(Protocol):
    """Shows the progress of creating an environment."""

    def step(self, text: str) -> None:
        """Announce the next step."""
        ...

    def advance(self, done: int, total: int) -> None:
        """Report how much of the current step is done."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


class PlainProgress:
    """A line for every step, and one for every quarter of a step."""

    def __init__(self) -> None:
        self._quarter = 0

    def step(self, text: str) -> None:
        """Print the step."""
        self._quarter = 0
        self._print(text)

    def advance(self, done: int, total: int) -> None:
        """Print how much is done, once for every quarter."""
        quarter = 4 * done // max(total, 1)
        if quarter > self._quarter:
            self._quarter = quarter
            self._print(f"  {done} of {total}")

    def close(self) -> None:
        """Do nothing."""

    def _print(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class LiveProgress:
    """A bar for every step. Needs the `cli` extra."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415  an extra
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._bars.start()
        self._present: TaskID | None = None

    def step(self, text: str) -> None:
        """Finish the previous bar and start a new one."""
        self._finish()
        self._present = self._bars.add_task(text, total=None)

    def advance(self, done: int, total: int) -> None:
        """Advance the bar."""
        if self._present is not None:
            self._bars.update(self._present, completed=done, total=total)

    def close(self) -> None:
        """Leave the last bars on the terminal."""
        self._bars.stop()

    def _finish(self) -> None:
        if self._present is not None:
            self._bars.update(self._present, completed=1, total=1)


def progress_for_people() -> ProgressDisplay:
    """Return bars if standard error is a terminal and `rich` is there, else plain lines."""
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        try:
            return LiveProgress()
        except ImportError:
            pass
    return PlainProgress()


LOCK = Path(__file__).with_name("ray.lock")

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "RAY_USAGE_STATS_ENABLED": "0",
        # gRPC's own resolver ignores the hosts file while it waits for a name server
        "GRPC_DNS_RESOLVER": "native",
        # else every pod takes 30 % of the machine's memory
        "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "200000000",
        # else a node drains for as long as a pod's whole grace period
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "2",
        # else Serve starves while another cluster starts: without control groups all pods compete
        "RAY_worker_niceness": "0",
        # else a token in a developer's own ~/.ray makes every cluster refuse the operator
        "RAY_AUTH_MODE": "disabled",
    }
)
"""Default variables of containers that run Ray on a laptop."""

_PIN = re.compile(r"^([a-z0-9-]+)==([^ ]+)", re.MULTILINE)
_MARKER = "made-from"


@dataclass(frozen=True, slots=True)
class RayEnvironment:
    """A virtual environment created from a lock file; it may not exist yet.

    Attributes:
        folder: folder of the environment; programs are in its `bin`.
        lock: requirements with hashes.
    """

    folder: Path
    lock: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"

    @property
    def pins(self) -> dict[str, str]:
        """Versions by name, as the lock file has them."""
        return dict(_PIN.findall(self.lock.read_text()))

    def is_complete(self) -> bool:
        """Return whether it was completed from this lock file, by a Python that still exists."""
        try:
            made_from = (self.folder / _MARKER).read_text()
        except OSError:
            return False
        return made_from == self._fingerprint() and self.python.exists()

    def mark_complete(self) -> None:
        """Mark the environment as complete. The last step of its creation.

        Raises:
            OSError: it could not be written.
        """
        (self.folder / _MARKER).write_text(self._fingerprint())

    def _fingerprint(self) -> str:
        return hashlib.sha256(self.lock.read_bytes()).hexdigest()


def ray_environment(environment: Mapping[str, str] = os.environ) -> RayEnvironment:
    """Return the environment of the Ray version that Manta pins; it may not exist yet."""
    version = dict(_PIN.findall(LOCK.read_text()))["ray"]
    return RayEnvironment(cache_dir(environment) / f"ray-{version}", LOCK)


def python_version() -> str:
    """Return the version of this interpreter, which the environment uses too: "3.13"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
