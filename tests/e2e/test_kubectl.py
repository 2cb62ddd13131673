"""`manta dev` and stock kubectl together, as on a laptop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import (
    ROOT,
    SHARED,
    Kubectl,
    Process,
    manta_dev,
    manta_once,
    needs_kubectl,
    until,
)

pytestmark = [needs_kubectl, pytest.mark.timeout(400)]

EXAMPLE = str(ROOT / "examples" / "raycluster.yaml")
SAMPLES = SHARED / "samples"


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[tuple[Process, Kubectl]]:
    with manta_dev(tmp_path) as running:
        yield running


def state(kubectl: Kubectl, name: str) -> str:
    return str(kubectl.json("get", "raycluster", name).get("status", {}).get("state", ""))


@pytest.mark.slow
def test_apply_get_watch_patch_and_delete_of_a_raycluster(
    dev: tuple[Process, Kubectl], tmp_path: Path
):
    process, kubectl = dev
    watched = tmp_path / "watch.out"
    watch = kubectl.background("get", "raycluster", "-w", out=watched)
    try:
        assert "raycluster.ray.io/example created" in kubectl("apply", "-f", EXAMPLE)
        until(lambda: state(kubectl, "example") == "ready", why=process.text)
        before = kubectl.json("get", "raycluster", "example")["metadata"]
        kubectl("apply", "-f", EXAMPLE)
        after = kubectl.json("get", "raycluster", "example")["metadata"]
        assert after["resourceVersion"] == before["resourceVersion"], "nothing has changed"

        table = kubectl("get", "rayclusters").splitlines()
        header = "NAME DESIRED WORKERS AVAILABLE WORKERS CPUS MEMORY GPUS STATUS AGE REASON"
        assert table[0].split() == header.split()
        assert table[1].split()[:3] == ["example", "2", "2"]
        assert "ready" in table[1]
        assert table[1].split()[-1] == "AllPodsReady"

        scaled = '[{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 4}]'
        kubectl("patch", "raycluster", "example", "--type=json", "-p", scaled)
        pods = ("get", "pods", "-l", "ray.io/node-type=worker", "--no-headers")
        until(lambda: kubectl(*pods).count("Running") == 4, why=process.text)
        until(lambda: watched.read_text().count("ready") >= 1)

        kubectl("delete", "raycluster", "example", "--wait", "--timeout=80s")
        assert "NotFound" in kubectl("get", "raycluster", "example", check=False)
        until(lambda: not kubectl("get", "pods", "--no-headers").strip())
    finally:
        watch.terminate()
        watch.wait()
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert not kubectl.kubeconfig.exists()


@pytest.mark.slow
def test_the_crds_that_manta_prints_can_be_applied(tmp_path: Path):
    printed = manta_once("crds")
    assert printed.returncode == 0
    with manta_dev(tmp_path, "--no-operator") as (_, kubectl):
        applied = kubectl("apply", "-f", "-", stdin=printed.stdout)
        assert "customresourcedefinition.apiextensions.k8s.io/rayclusters.ray.io" in applied
