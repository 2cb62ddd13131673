"""What `manta dev` does to a user's kubeconfig, and what two of them do to each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.processes import Process, manta, manta_once, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

PRODUCTION: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "prod", "cluster": {"server": "https://prod.example"}}],
    "users": [{"name": "admin", "user": {"token": "secret"}}],
    "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "admin"}}],
    "current-context": "prod",
}


@pytest.fixture
def production(tmp_path: Path) -> Path:
    path = tmp_path / "production"
    path.write_text(yaml.safe_dump(PRODUCTION))
    path.chmod(0o600)
    return path


@contextmanager
def dev(folder: Path, *arguments: str, name: str = "manta") -> Iterator[Process]:
    cache = str(folder / "cache")
    with manta(
        folder, "dev", "--no-operator", *arguments, name=name, XDG_CACHE_HOME=cache
    ) as process:
        until(lambda: "Press Ctrl-C" in process.out.read_text(), why=process.text)
        yield process


def stop(process: Process) -> None:
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0, process.text()


def contexts(path: Path) -> list[str]:
    return [one["name"] for one in yaml.safe_load(path.read_text())["contexts"]]


def test_a_production_kubeconfig_survives_the_end_and_kill_9(production: Path, tmp_path: Path):
    with dev(tmp_path, "--kubeconfig", str(production)) as process:
        assert contexts(production) == ["prod", "manta-dev"]
        assert "then it is prod again" in process.text()
        stop(process)
    assert yaml.safe_load(production.read_text()) == PRODUCTION

    with dev(tmp_path, "--kubeconfig", str(production)) as process:
        process.popen.kill()
    assert contexts(production) == ["prod", "manta-dev"]
    with dev(tmp_path) as process:
        assert f"took the context of a killed `manta dev` out of {production}" in process.text()
        assert yaml.safe_load(production.read_text()) == PRODUCTION


def test_two_at_once_leave_each_other_alone(tmp_path: Path):
    mine = tmp_path / "cache" / "manta" / "kubeconfig"
    with dev(tmp_path, name="first") as first, dev(tmp_path, name="second") as second:
        assert "`manta dev --name dev` runs already" in second.text()
        assert str(mine) in second.text()
        other = mine.with_name("kubeconfig-dev-2")
        assert (contexts(mine), contexts(other)) == (["manta-dev"], ["manta-dev-2"])
        refused = manta_once("dev", "--name=dev", XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert refused.returncode == 2
        assert f"runs already (process {first.popen.pid})" in refused.stderr
        stop(second)
        assert (mine.exists(), other.exists()) == (True, False)
        stop(first)
    assert not mine.exists()


ANOTHER_USER = """
import encodings.idna, os, ssl, sys, urllib.error, urllib.request  # what it may read no more
config, address = sys.argv[1:]
os.setuid(65534)
try:
    open(config)
except PermissionError:
    print("kubeconfig: may not be read")
try:
    urllib.request.urlopen(address, context=ssl._create_unverified_context())
except urllib.error.HTTPError as refused:
    print(f"API server: {refused.code}")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can be another user")
def test_another_user_of_the_machine_reads_no_token_and_no_pod(tmp_path: Path):
    with dev(tmp_path):
        config = tmp_path / "cache" / "manta" / "kubeconfig"
        server = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]["server"]
        done = subprocess.run(
            [sys.executable, "-c", ANOTHER_USER, str(config), f"{server}/api/v1/pods"],
            capture_output=True,
            text=True,
            check=False,
        )
    said = done.stdout.splitlines()
    assert said == ["kubeconfig: may not be read", "API server: 401"], done.stderr
