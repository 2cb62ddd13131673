"""`manta dev` and stock kubectl together, as on a laptop, also in pods that are processes."""

from __future__ import annotations

import re
import signal
import sys
import urllib.request
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
from tests.ports import free_port

pytestmark = [needs_kubectl, pytest.mark.timeout(400)]

EXAMPLE = str(ROOT / "examples" / "raycluster.yaml")
SAMPLES = SHARED / "samples"


COLUMNS_OF_JOBS = [
    "NAME",
    "JOB STATUS",
    "DEPLOYMENT STATUS",
    "RAY CLUSTER NAME",
    "START TIME",
    "END TIME",
    "AGE",
]
COLUMNS_OF_CRON_JOBS = ["NAME", "SCHEDULE", "TIMEZONE", "LAST SCHEDULE", "AGE", "SUSPEND"]


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
@pytest.mark.parametrize("crds", ["ours", "theirs"])
@pytest.mark.skipif(
    not SAMPLES.is_dir(),
    reason="SKIP: no samples beside the project; users' manifests not tried",
)
def test_samples_of_kuberay_users_become_ready_unchanged(tmp_path: Path, crds: str):
    """All but those that ask for protection that is not built: they are refused.

    Each has its own namespace, because they have different config maps of the same name.
    """
    files = [
        file
        for file in SAMPLES.glob("*.yaml")
        if "kind: RayCluster\n" in file.read_text() and "networkPolicy:" not in file.read_text()
    ]
    assert len(files) > 10
    arguments = ["--crds", str(SHARED / "crds")] if crds == "theirs" else []
    with manta_dev(tmp_path, *arguments) as (process, kubectl):
        for number, file in enumerate(files):
            kubectl("create", "namespace", f"user-{number}")
            kubectl("-n", f"user-{number}", "apply", "-f", str(file))
        states = ("get", "rayclusters", "-A", "-o", "jsonpath={.items[*].status.state}")
        names = kubectl("get", "rayclusters", "-A", "-o", "name").split()
        until(lambda: kubectl(*states).split() == ["ready"] * len(names), why=process.text)


@pytest.mark.slow
@pytest.mark.parametrize("crds", ["ours", "theirs"])
@pytest.mark.skipif(
    not SAMPLES.is_dir(),
    reason="SKIP: no samples beside the project; users' jobs not tried",
)
def test_jobs_of_kuberay_users_are_applied_shown_and_deleted(tmp_path: Path, crds: str):
    """Clusters, submitters and Ray are simulated: jobs end, unless they wait for their user."""
    files = [
        file for file in SAMPLES.glob("ray-*job.*.yaml") if "generateName" not in file.read_text()
    ]
    assert len(files) > 7
    arguments = ["--crds", str(SHARED / "crds")] if crds == "theirs" else []
    with manta_dev(tmp_path, *arguments) as (process, kubectl):
        kubectl("apply", *(word for file in files for word in ("-f", str(file))))
        kubectl("create", "-f", str(SAMPLES / "ray-job.kueue-toy-sample.yaml"))
        expected = {
            "rayjob-interactive-mode": "Waiting",
            "rayjob-use-existing-raycluster": "Initializing",
        }

        def as_expected() -> bool:
            states = {
                job["metadata"]["name"]: job.get("status", {}).get("jobDeploymentStatus")
                for job in kubectl.json("get", "rayjobs")["items"]
            }
            return all(
                state == expected.get(name, "Complete") for name, state in states.items()
            ) and {"raycronjob", "rayjob"} == {name.partition("-")[0] for name in states}

        until(as_expected, seconds=100, why=process.text)
        jobs = kubectl("get", "rayjobs").splitlines()
        assert re.split(r"  +", jobs[0].strip())[:7] == COLUMNS_OF_JOBS
        cron_jobs = kubectl("get", "raycronjobs").splitlines()
        assert re.split(r"  +", cron_jobs[0].strip())[:6] == COLUMNS_OF_CRON_JOBS
        assert cron_jobs[1].startswith("raycronjob-sample   * * * * *")
        # Events may come later than what they tell of.
        until(
            lambda: "CreatedRayJobSubmitter" in kubectl("describe", "rayjob", "rayjob-sample"),
            why=process.text,
        )
        until(
            lambda: "CreatedRayJob " in kubectl("describe", "raycronjob", "raycronjob-sample"),
            why=process.text,
        )

        kubectl("delete", "raycronjobs", "--all", "--wait", "--timeout=80s")
        kubectl("delete", "rayjobs", "--all", "--wait", "--timeout=80s")
        kinds = "rayjobs,raycronjobs,rayclusters,jobs,pods"
        until(lambda: not kubectl("get", kinds, "--no-headers").strip(), why=process.text)


@pytest.mark.slow
def test_the_crds_that_manta_prints_can_be_applied(tmp_path: Path):
    printed = manta_once("crds")
    assert printed.returncode == 0
    with manta_dev(tmp_path, "--no-operator") as (_, kubectl):
        applied = kubectl("apply", "-f", "-", stdin=printed.stdout)
        assert "customresourcedefinition.apiextensions.k8s.io/rayclusters.ray.io" in applied


POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: main
    image: python
    command: [sh, -c, "python3 -m http.server 8000 & while true; do date; sleep 0.2; done"]
"""


def get(url: str) -> str:
    """What is there; empty while it cannot be reached."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except OSError:
        return ""


WEBSOCKETS: dict[str, str] = {}
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
"""What kubectl before 1.31 speaks."""


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [WEBSOCKETS, SPDY], ids=["websockets", "spdy"])
def test_commands_run_in_pods_and_files_are_copied(tmp_path: Path, protocol: dict[str, str]):
    with manta_dev(tmp_path, "--no-operator", f"--image=python={sys.prefix}") as (dev, stock):
        kubectl = stock.with_environment(**protocol)
        kubectl("apply", "-f", "-", stdin=POD)
        until(lambda: "Running" in kubectl("get", "pod", "a"), why=dev.text)
        assert kubectl("exec", "a", "--", "echo", "hello") == "hello\n"
        assert kubectl("exec", "-i", "a", "--", "cat", stdin="text") == "text"
        large = "text" * 500_000
        assert kubectl("exec", "-i", "a", "--", "cat", stdin=large) == large
        failed = kubectl("exec", "a", "--", "sh", "-c", "exit 3", check=False)
        assert "command terminated with exit code 3" in failed
        assert "container z is not valid" in kubectl(
            "exec", "a", "-c", "z", "--", "ls", check=False
        )

        here = tmp_path / "here"
        here.write_text("content")
        kubectl("cp", str(here), "a:/tmp/there")
        assert kubectl("exec", "a", "--", "cat", "/tmp/there") == "content"

        local = free_port()
        forward = kubectl.background(
            "port-forward", "pod/a", f"{local}:8000", out=tmp_path / "forwarded"
        )
        try:
            until(lambda: "Directory listing" in get(f"http://127.0.0.1:{local}/"), why=dev.text)
        finally:
            forward.terminate()
            forward.wait()
