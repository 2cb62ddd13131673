"""`manta` and `kubectl` as processes, for tests that use them as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.command.development.embedded_cluster import EmbeddedCluster
from controller.command.development.runs import DevContext
from tests.lab.programs import kubectl

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
MANTA = [sys.executable, "-m", "controller"]
KUBECTL = kubectl()

needs_kubectl = pytest.mark.skipif(not KUBECTL, reason="SKIP: no kubectl on this machine")


@dataclass
class Process:
    """A running `manta` with its output in files."""

    popen: subprocess.Popen[bytes]
    out: Path
    err: Path

    def text(self) -> str:
        return self.out.read_text() + self.err.read_text()

    def wait(self, seconds: float = 90.0) -> int:
        return self.popen.wait(seconds)


@contextmanager
def manta(folder: Path, *arguments: str, name: str = "manta", **env: str) -> Iterator[Process]:
    """`manta ARGUMENTS` in the background; killed at the end if it still runs."""
    out, err = folder / f"{name}.out", folder / f"{name}.err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        popen = subprocess.Popen(
            [*MANTA, *arguments],
            stdout=stdout,
            stderr=stderr,
            cwd=ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | env,
        )
    try:
        yield Process(popen, out, err)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait()


def manta_once(
    *arguments: str, seconds: float = 90.0, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `manta ARGUMENTS` to its end."""
    return subprocess.run(
        [*MANTA, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=ROOT,
        env=os.environ | env,
        check=False,
    )


def until(
    reached: Callable[[], Any], *, seconds: float = 90.0, why: Callable[[], str] = str
) -> Any:
    """Wait for a condition in the world outside, with a deadline."""
    deadline = time.monotonic() + seconds
    while not (result := reached()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not reached within {seconds} s\n{why()}")
        time.sleep(0.05)
    return result


@dataclass
class Kubectl:
    kubeconfig: Path
    environment: dict[str, str] = field(default_factory=dict)
    patience: float = 90.0

    def with_environment(self, **variables: str) -> Kubectl:
        return replace(self, environment=variables)

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        assert KUBECTL
        done = subprocess.run(
            [KUBECTL, "--kubeconfig", str(self.kubeconfig), *arguments],
            capture_output=True,
            text=True,
            input=stdin,
            timeout=self.patience,
            check=False,
            env=self._variables(),
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}\n{done.stdout}")
        return done.stdout + ("" if check else done.stderr)

    def json(self, *arguments: str) -> Any:
        return msgspec.json.decode(self(*arguments, "-o", "json"))

    def background(self, *arguments: str, out: Path) -> subprocess.Popen[bytes]:
        assert KUBECTL
        with out.open("wb") as stdout:
            return subprocess.Popen(
                [KUBECTL, "--kubeconfig", str(self.kubeconfig), *arguments],
                stdout=stdout,
                env=self._variables(),
            )

    def _variables(self) -> dict[str, str]:
        return os.environ | {"HOME": str(self.kubeconfig.parent)} | self.environment


def write_kubeconfig(path: Path, cluster: EmbeddedCluster) -> None:
    """A new file with the context of a cluster in this process."""
    DevContext("embedded", path.with_suffix(".run")).add(
        path, cluster=cluster.kubeconfig_cluster(), user=cluster.kubeconfig_user()
    )


@contextmanager
def manta_dev(folder: Path, *arguments: str) -> Iterator[tuple[Process, Kubectl]]:
    """A running `manta dev` and a kubectl that talks to it."""
    kubeconfig = folder / "kubeconfig"
    with manta(folder, "dev", "--kubeconfig", str(kubeconfig), *arguments, name="dev") as process:
        until(
            lambda: kubeconfig.exists() and "kubectl get" in process.out.read_text(),
            why=process.text,
        )
        yield process, Kubectl(kubeconfig)
