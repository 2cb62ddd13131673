"""`manta dev --ray` and stock kubectl: pods are processes that run real Ray."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.command.development.rayenv import ray_environment
from tests.e2e.processes import ROOT, Kubectl, Process, manta_dev, needs_kubectl, until
from tests.e2e.ray.machine import needs_ray, traces_of

pytestmark = [pytest.mark.slow, needs_ray, needs_kubectl, pytest.mark.timeout(2400)]

EXAMPLE = str(ROOT / "examples" / "raycluster.yaml")
RAY = ray_environment().folder / "bin" / "ray"
STARTS = 600.0  # seconds until a cluster is ready, on a machine that has much else to do
COUNT = (
    "import ray; ray.init(); print('alive nodes:', sum(node['Alive'] for node in ray.nodes()));"
    "print('answer:', ray.get(ray.remote(lambda: 6 * 7).remote()))"
)


class Cluster:
    """The example on a running `manta dev --ray`."""

    def __init__(self, dev: Process, kubectl: Kubectl) -> None:
        self.dev = dev
        self.kubectl = kubectl

    def ready(self) -> dict[str, Any]:
        """Names of all pods, and their uids, once three of them are there and ready."""

        def found() -> dict[str, Any]:
            pods = self.kubectl.json("get", "pods")["items"]
            conditions = [pod["status"].get("conditions", ()) for pod in pods]
            ready = [
                any(one["type"] == "Ready" and one["status"] == "True" for one in listed)
                for listed in conditions
            ]
            if len(pods) != 3 or not all(ready):
                return {}
            return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}

        return until(found, seconds=STARTS, why=self.story)

    def addresses(self) -> list[str]:
        """Every address of a dashboard that was printed, the last one last."""
        told = self.dev.out.read_text()
        return re.findall(r"default/example: dashboard at (http://\S+:8265)", told)

    def submit(self, code: str) -> str:
        done = subprocess.run(
            [RAY, "job", "submit", "--address", self.addresses()[-1], "--", "python", "-c", code],
            capture_output=True,
            text=True,
            timeout=STARTS,
            check=False,
        )
        return f"{done.returncode}\n{done.stdout}{done.stderr}"

    def has_nodes(self, number: int) -> bool:
        """Whether Ray knows so many nodes that are alive, and computes."""
        if self._alive_nodes() != number:  # a job costs seconds of the processor
            return False
        told = self.submit(COUNT)
        return f"alive nodes: {number}\n" in told and "answer: 42" in told

    def _alive_nodes(self) -> int:
        """How many nodes the dashboard shows as alive; none if it does not answer."""
        try:
            with urllib.request.urlopen(
                f"{self.addresses()[-1]}/nodes?view=summary", timeout=30
            ) as answer:
                nodes = msgspec.json.decode(answer.read())["data"]["summary"]
        except OSError:
            return 0
        return sum(node["raylet"].get("state") == "ALIVE" for node in nodes)

    def use(self) -> str:
        """Status of the condition Idle, empty without one."""
        conditions = self.kubectl.json("get", "raycluster", "example")["status"]["conditions"]
        return next((each["status"] for each in conditions if each["type"] == "Idle"), "")

    def jobs(self) -> list[str]:
        with urllib.request.urlopen(f"{self.addresses()[-1]}/api/jobs/", timeout=30) as answer:
            return [each["status"] for each in msgspec.json.decode(answer.read())]

    def story(self) -> str:
        return self.kubectl("describe", "pods") + self.dev.text()


def test_a_cluster_of_real_ray_under_kubectl(tmp_path: Path):
    with manta_dev(tmp_path, "--ray") as (dev, kubectl):
        assert re.search(r"isolation '(namespaces|shim)': ", dev.text())
        traces = traces_of(dev.popen.pid)
        cluster = Cluster(dev, kubectl)
        kubectl("apply", "-f", EXAMPLE)
        before = cluster.ready()
        head, gone, kept = sorted(before)

        assert "Ray runtime started" in kubectl("logs", head)
        assert "Ray runtime started" in kubectl("logs", kept)
        told = cluster.submit(COUNT)
        assert "alive nodes: 3" in told, told
        assert "answer: 42" in told, told

        a_worker_that_is_deleted_is_replaced(cluster, gone)
        a_head_that_is_deleted_is_replaced(cluster, head)
        a_cluster_is_suspended_after_its_last_driver_and_not_before(cluster)

        kubectl("delete", "raycluster", "example", "--wait", "--timeout=50s")
        until(lambda: not kubectl("get", "pods", "--no-headers").strip(), seconds=90)
        dev.popen.send_signal(signal.SIGTERM)
        assert dev.wait(60) == 0, dev.text()
    traces.go()


def a_worker_that_is_deleted_is_replaced(cluster: Cluster, name: str) -> None:
    before = cluster.ready()
    cluster.kubectl("delete", "pod", name, "--timeout=50s")
    after = cluster.ready()
    assert len(after.keys() - before.keys()) == 1
    until(lambda: cluster.has_nodes(3), seconds=STARTS)


def a_head_that_is_deleted_is_replaced(cluster: Cluster, name: str) -> None:
    """Another head comes; workers leave the Ray that is gone and join the one that has come."""
    before, addresses = cluster.ready(), len(cluster.addresses())
    cluster.kubectl("delete", "pod", name, "--timeout=50s")
    until(lambda: len(cluster.addresses()) > addresses, seconds=STARTS)
    after = cluster.ready()
    assert before[name] not in after.values()
    until(lambda: cluster.has_nodes(3), seconds=STARTS, why=lambda: cluster.submit(COUNT))
    cluster.ready()


def a_cluster_is_suspended_after_its_last_driver_and_not_before(cluster: Cluster) -> None:
    """A driver that sleeps for longer than the timeout is use; its end begins the timeout."""
    seconds = 15
    options = {"spec": {"idleTerminationOptions": {"timeoutSeconds": seconds}}}
    code = f"import ray, time; ray.init(); time.sleep({3 * seconds}); print('slept')"
    driver = [RAY, "job", "submit", "--no-wait", "--address", cluster.addresses()[-1]]
    subprocess.run([*driver, "--", "python", "-c", code], check=True, timeout=STARTS)
    cluster.kubectl("patch", "raycluster", "example", "--type=merge", "-p", json.dumps(options))
    until(lambda: cluster.use() == "False", seconds=STARTS, why=cluster.story)
    until(lambda: cluster.use() == "True", seconds=STARTS, why=cluster.story)
    assert set(cluster.jobs()) == {"SUCCEEDED"}, "it was in use until its driver had ended"
    until(lambda: not cluster.kubectl.json("get", "pods")["items"], seconds=STARTS)
    found = cluster.kubectl.json("get", "raycluster", "example")
    assert found["spec"]["idleSuspend"] is True
    assert found["status"]["state"] == "suspended"
