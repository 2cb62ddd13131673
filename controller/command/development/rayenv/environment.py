"""Where the environment with Ray is, and what processes in it are given."""

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
        # else a token in a developer's own ~/.ray makes every cluster refuse the operator
        "RAY_AUTH_MODE": "disabled",
    }
)
"""What a container that runs Ray on a laptop is given unless it sets it itself."""

_PIN = re.compile(r"^([a-z0-9-]+)==([^ ]+)", re.MULTILINE)
_MARKER = "made-from"


@dataclass(frozen=True, slots=True)
class RayEnvironment:
    """A virtual environment that is made, or is still to be made, from a lock file.

    Attributes:
        folder: of the environment; programs are in its `bin`.
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
        """Whether it was made to the end, from this lock file, by a Python that is still there."""
        try:
            made_from = (self.folder / _MARKER).read_text()
        except OSError:
            return False
        return made_from == self._fingerprint() and self.python.exists()

    def mark_complete(self) -> None:
        """Say that everything is installed. The last step of making it.

        Raises:
            OSError: it could not be written.
        """
        (self.folder / _MARKER).write_text(self._fingerprint())

    def _fingerprint(self) -> str:
        return hashlib.sha256(self.lock.read_bytes()).hexdigest()


def ray_environment(environment: Mapping[str, str] = os.environ) -> RayEnvironment:
    """The environment of the Ray version that Manta pins, made or not."""
    version = dict(_PIN.findall(LOCK.read_text()))["ray"]
    return RayEnvironment(cache_dir(environment) / f"ray-{version}", LOCK)


def python_version() -> str:
    """Of this process, which the environment gets as well: "3.13"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
