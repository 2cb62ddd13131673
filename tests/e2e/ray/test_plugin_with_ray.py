"""The commands of KubeRay's kubectl plugin that need a real Ray: log, session and job submit."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import msgspec
import pytest

from controller.command.development.rayenv import ray_environment
from tests.e2e.kuberay_plugin import Plugin, needs_plugin
from tests.e2e.processes import manta_dev, needs_kubectl, until
from tests.e2e.ray.machine import needs_ray

pytestmark = [
    pytest.mark.slow,
    pytest.mark.rare,
    needs_plugin,
    needs_ray,
    needs_kubectl,
    pytest.mark.timeout(1800),
]

HEAD = ("--head-cpu=1", "--head-memory=2Gi")


def version_at(url: str) -> str:
    """Ray's version as its dashboard says it; empty while nobody answers."""
    try:
        with urllib.request.urlopen(f"{url}/api/version", timeout=30) as answer:
            return msgspec.json.decode(answer.read())["ray_version"]
    except OSError:
        return ""


def test_logs_a_session_and_a_job_by_the_plugin(tmp_path: Path):
    with manta_dev(tmp_path, "--ray") as (dev, kubectl):
        plugin = Plugin(kubectl.kubeconfig, path=str(ray_environment().folder / "bin"))
        workers = ("--worker-replicas=1", "--worker-cpu=1", "--worker-memory=1Gi")
        plugin("create", "cluster", "a", *HEAD, *workers, "--wait", "--timeout=600s", seconds=610)

        logs = tmp_path / "logs"
        logs.mkdir()
        plugin("log", "a", f"--out-dir={logs}")
        folders = {path.name.split("-")[-2] for path in logs.iterdir()}
        assert folders == {"head", "worker"}
        for name in ("stdout.log", "raylet.out"):
            assert len(list(logs.glob(f"*/{name}"))) == 2, f"{name} of each"

        with plugin.running("session", "a", out=tmp_path / "session"):
            until(lambda: version_at("http://localhost:8265") == "2.60.0", why=dev.text)
        plugin("delete", "--yes", "a")

        work = tmp_path / "work"
        work.mkdir()
        (work / "a.py").write_text("print('answer:', 6 * 7)\n")
        submit = ("job", "submit", "--name=b", f"--working-dir={work}", *HEAD)
        told = plugin(*submit, "--worker-replicas=0", "--", "python", "a.py", seconds=600)
        assert "answer: 42" in told
        assert "finished with status SUCCEEDED" in told
        until(lambda: kubectl.json("get", "rayjob", "b")["status"]["jobStatus"] == "SUCCEEDED")
