"""The location of the environment with Ray, and the variables of its processes."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from controller.command.development.user_dirs import cache_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

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
