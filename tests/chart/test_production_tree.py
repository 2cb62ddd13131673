"""What the image holds: the packages without those that .dockerignore leaves out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
LEFT_OUT = {"controller/command/development", "controller/testing"}
NOT_COPIED = {"devcluster", "demos"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the packages as `docker build` sees them."""
    copy = tmp_path_factory.mktemp("image")
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert set(ignored) >= LEFT_OUT

    def left_out(folder: str, names: list[str]) -> set[str]:
        place = Path(folder).relative_to(ROOT)
        return {name for name in names if str(place / name) in ignored or name == "__pycache__"}

    for package in ("workqueue", "informers", "controller"):
        shutil.copytree(ROOT / package, copy / package, ignore=left_out)
    return copy


def manta(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Without `site`, which would find the folders left out where the project is installed to edit.
    path = os.pathsep.join([str(tree), sysconfig.get_path("purelib")])
    return subprocess.run(
        [sys.executable, "-S", "-m", "controller", *arguments],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_the_image_holds_no_embedded_cluster(tree):
    assert not any((tree / name).exists() for name in LEFT_OUT | NOT_COPIED)


@pytest.mark.slow
def test_help_works_without_the_embedded_cluster(tree):
    assert "run the operator" in manta(tree, "--help").stdout
    assert "--sync-timeout" in manta(tree, "run", "--help").stdout


def test_definitions_are_printed_without_the_embedded_cluster(tree):
    done = manta(tree, "crds")
    assert done.returncode == 0, done.stderr
    assert "kind: CustomResourceDefinition" in done.stdout


@pytest.mark.parametrize("command", ["dev", "demo"])
def test_development_commands_say_what_they_need(tree, command):
    done = manta(tree, command)
    assert done.returncode == 2
    assert f"`manta {command}` needs the full package" in done.stderr
    assert "pip install" in done.stderr


@pytest.fixture
def unreachable(tmp_path) -> str:
    """A kubeconfig of an API server that refuses connections."""
    port = free_port()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        f"""
apiVersion: v1
kind: Config
clusters: [{{name: dead, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: nobody, user: {{}}}}]
contexts: [{{name: dead, context: {{cluster: dead, user: nobody}}}}]
current-context: dead
"""
    )
    return f"--kubeconfig={kubeconfig}"


@pytest.mark.slow
def test_the_operator_starts_without_the_embedded_cluster(tree, unreachable):
    done = manta(
        tree, "run", unreachable, "--sync-timeout=0.5", "--metrics-address=", "--health-address="
    )
    assert done.returncode == 1, done.stderr
    assert "The API server cannot be reached" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_planning_against_a_server_does_without_the_embedded_cluster(tree, unreachable):
    done = manta(tree, "plan", "--all", unreachable)
    assert done.returncode == 2
    assert "cannot ask the cluster" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_planning_offline_says_what_it_needs(tree):
    done = manta(tree, "plan", "--offline", "-f", str(ROOT / "examples" / "raycluster.yaml"))
    assert done.returncode == 2
    assert "--offline needs the embedded API server" in done.stderr
    assert "pip install" in done.stderr
