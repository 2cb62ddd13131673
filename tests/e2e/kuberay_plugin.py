"""KubeRay's kubectl plugin as a person uses it; `KUBERAY_KUBECTL_PLUGIN` names its binary."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

BINARY = os.environ.get("KUBERAY_KUBECTL_PLUGIN", "")

needs_plugin = pytest.mark.skipif(
    not BINARY,
    reason="SKIP: KUBERAY_KUBECTL_PLUGIN names no binary of KubeRay's plugin; it is not tried",
)


@dataclass
class Plugin:
    """`kubectl ray` with a kubeconfig, in a folder of its own."""

    kubeconfig: Path
    path: str = ""
    """Where it finds `ray`, before all other programs."""

    def __call__(self, *arguments: str, check: bool = True, seconds: float = 120.0) -> str:
        done = subprocess.run(
            [BINARY, *arguments],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            cwd=self.kubeconfig.parent,
            env=self._variables(),
        )
        told = done.stdout + done.stderr
        assert not check or not done.returncode, f"kubectl ray {' '.join(arguments)}: {told}"
        return told

    @contextmanager
    def running(self, *arguments: str, out: Path) -> Iterator[None]:
        """A command that does not end by itself; the `kubectl` that it starts ends with it."""
        with out.open("wb") as file:
            popen = subprocess.Popen(
                [BINARY, *arguments],
                stdout=file,
                stderr=file,
                cwd=self.kubeconfig.parent,
                env=self._variables(),
                start_new_session=True,
            )
        try:
            yield
        finally:
            os.killpg(popen.pid, signal.SIGKILL)
            popen.wait()

    def _variables(self) -> dict[str, str]:
        return os.environ | {
            "KUBECONFIG": str(self.kubeconfig),
            "HOME": str(self.kubeconfig.parent),
            "PATH": os.pathsep.join(filter(None, [self.path, os.environ.get("PATH", "")])),
        }
