"""KubeRay's clients work on Manta: its kubectl plugin, its Python client, its API server.

Variables name what was built of KubeRay's source: `KUBERAY_KUBECTL_PLUGIN` and `KUBERAY_APISERVER`
a binary each, `KUBERAY_PYTHON_CLIENT` the folder `clients/python-client` with a virtual environment
`.venv` in it that has the package `kubernetes`. What needs a real Ray is in
`ray/test_plugin_with_ray.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.kuberay_plugin import Plugin, needs_plugin
from tests.e2e.processes import Kubectl, Process, manta_dev, needs_kubectl, until
from tests.ports import free_port

pytestmark = [needs_kubectl, pytest.mark.slow, pytest.mark.rare, pytest.mark.timeout(900)]

PYTHON_CLIENT = os.environ.get("KUBERAY_PYTHON_CLIENT", "")
APISERVER = os.environ.get("KUBERAY_APISERVER", "")

needs_python_client = pytest.mark.skipif(
    not PYTHON_CLIENT,
    reason="SKIP: KUBERAY_PYTHON_CLIENT names no folder of KubeRay's client; it is not tried",
)
needs_apiserver = pytest.mark.skipif(
    not APISERVER,
    reason="SKIP: KUBERAY_APISERVER names no binary of KubeRay's API server; it is not tried",
)

COMMANDS = {
    "create cluster", "create workergroup", "delete", "get cluster", "get node", "get token",
    "get workergroup", "job submit", "log", "scale cluster", "session", "version",
}  # fmt: skip
"""All twelve of the plugin. `log` and `session` need pods that run: test_plugin_with_ray.py."""

OPERATOR = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: manta
  labels: {app.kubernetes.io/name: kuberay-operator}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: [{name: manta-operator, image: "registry.example/manta-operator:0.1.0"}]
"""
"""As the chart with `nameOverride: kuberay-operator` makes it, as test_chart.py shows."""

LISTED_FIRST = """
import sys, unittest
loader = unittest.TestLoader()
loader.sortTestMethodsUsing = lambda a, b: (key(a) > key(b)) - (key(a) < key(b))
key = lambda name: ("list" not in name, name)
result = unittest.TextTestRunner(verbosity=2).run(loader.discover("."))
sys.exit(not result.wasSuccessful())
"""
"""Runs the client's own tests. Those that count objects come first, because they count what the
tests before them delete too, without waiting until it is gone."""

SCALE = """
from python_client.kuberay_cluster_api import RayClusterApi
from python_client.utils.kuberay_cluster_builder import Director
from python_client.utils.kuberay_cluster_utils import ClusterUtils
api = RayClusterApi()
body = Director().build_small_cluster("small", "default", {"team": "a"})
assert api.create_ray_cluster(body)
assert api.wait_until_ray_cluster_running("small", delay_between_attempts=1)
scaled, done = ClusterUtils().update_worker_group_replicas(
    api.get_ray_cluster("small"), "small-workers", max_replicas=4, min_replicas=3, replicas=3)
assert done, scaled
assert api.patch_ray_cluster("small", {"spec": scaled["spec"]})
"""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[tuple[Process, Kubectl]]:
    with manta_dev(tmp_path) as running:
        yield running


@pytest.fixture
def plugin(dev: tuple[Process, Kubectl]) -> Plugin:
    return Plugin(dev[1].kubeconfig)


def commands_in(plugin: Plugin, *parents: str) -> set[str]:
    """The commands that `--help` lists, with those below them."""
    help_text = plugin(*parents, "--help")
    _, found, listed = help_text.partition("Available Commands:\n")
    if not found:
        return {" ".join(parents)}
    names = re.findall(r"^  (\w+) ", listed.partition("\n\n")[0], re.MULTILINE)
    below = (commands_in(plugin, *parents, name) for name in names if name != "help")
    return {command for commands in below for command in commands}


@needs_plugin
def test_the_commands_of_the_plugin_are_those_that_are_tried(plugin: Plugin):
    assert commands_in(plugin) == COMMANDS


@needs_plugin
def test_the_plugin_makes_shows_scales_and_deletes_what_manta_runs(
    plugin: Plugin, dev: tuple[Process, Kubectl]
):
    process, kubectl = dev
    plugin("create", "cluster", "a", "--worker-replicas=2", "--wait", "--timeout=60s")
    [row] = [line.split() for line in plugin("get", "cluster").splitlines()[1:]]
    assert row[:9] == ["a", "default", "2", "2", "6", "0", "0", "12Gi", "RayClusterProvisioned"]
    assert row[9] == "ready"

    told = plugin("create", "workergroup", "more", "--ray-cluster=a", "--worker-replicas=1")
    assert "with new worker group" in told
    plugin("scale", "cluster", "a", "--worker-group=default-group", "--replicas=3")

    def groups() -> list[list[str]]:
        lines = plugin("get", "workergroup", "--ray-cluster=a").splitlines()[1:]
        return [[line.split()[0], line.split()[3]] for line in lines]

    wanted = [["default-group", "3/3"], ["more", "1/1"]]
    until(lambda: groups() == wanted, why=process.text)
    nodes = [line.split() for line in plugin("get", "node", "--ray-cluster=a").splitlines()[1:]]
    assert [(node[6], node[7]) for node in nodes] == [
        *[("worker", "default-group")] * 3,
        ("head", "headgroup"),
        ("worker", "more"),
    ]

    assert "a\n" in plugin("__complete", "session", "")
    assert "a\n" in plugin("__complete", "get", "cluster", "")
    assert "Deleted raycluster a" in plugin("delete", "--yes", "raycluster/a")
    until(lambda: not kubectl("get", "rayclusters,pods", "--no-headers").strip())


@needs_plugin
def test_the_plugin_reads_the_token_of_a_cluster(plugin: Plugin, dev: tuple[Process, Kubectl]):
    _, kubectl = dev
    plugin("create", "cluster", "a", "--wait", "--timeout=60s")
    assert "was not configured to use authentication tokens" in plugin(
        "get", "token", "a", check=False
    )
    with_tokens = '{"spec": {"authOptions": {"mode": "token"}}}'
    kubectl("patch", "raycluster", "a", "--type=merge", "-p", with_tokens)
    token = until(lambda: kubectl("get", "secret", "a", "-o", "name", check=False).count("/"))
    assert token
    assert len(plugin("get", "token", "a")) > 32


@needs_plugin
def test_the_plugin_knows_the_version_of_an_operator_with_kuberays_name(
    plugin: Plugin, dev: tuple[Process, Kubectl]
):
    _, kubectl = dev
    assert "installation cannot be found" in plugin("version")
    kubectl("apply", "-f", "-", stdin=OPERATOR)
    assert "KubeRay operator version: 0.1.0\n" in plugin("version")


@needs_plugin
def test_the_plugin_submits_a_job_until_it_needs_a_connection(
    plugin: Plugin, dev: tuple[Process, Kubectl], tmp_path: Path
):
    process, kubectl = dev
    job = ("job", "submit", f"--working-dir={tmp_path}", "--name")
    manifest = plugin(*job, "dry", "--dry-run", "--", "python", "a.py").partition("\n")[2]
    assert "rayjob.ray.io/dry created" in kubectl("apply", "-f", "-", stdin=manifest)
    told = plugin(*job, "a", "--", "python", "a.py", check=False)
    assert "Submitted RayJob a." in told
    assert "an embedded cluster has no connections into its pods" in told
    until(
        lambda: all(
            job["status"]["rayClusterStatus"]["state"] == "ready"
            for job in kubectl.json("get", "rayjobs")["items"]
        ),
        why=process.text,
    )
    for name in ("a", "dry"):
        assert f"Deleted rayjob {name}" in plugin("delete", "--yes", f"rayjob/{name}")
    until(lambda: not kubectl("get", "rayjobs,rayclusters,pods", "--no-headers").strip())


def with_python_client(kubectl: Kubectl, code: str) -> str:
    """Run code in the folder of the client's own tests."""
    folder = Path(PYTHON_CLIENT)
    done = subprocess.run(
        [folder / ".venv" / "bin" / "python", "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=folder / "python_client_test",
        env=os.environ | {"KUBECONFIG": str(kubectl.kubeconfig), "PYTHONPATH": str(folder)},
    )
    assert not done.returncode, done.stderr
    return done.stderr


@needs_python_client
def test_the_own_tests_of_the_python_client_pass(dev: tuple[Process, Kubectl]):
    told = with_python_client(dev[1], LISTED_FIRST)
    for name in ("test_patch_ray_cluster", "test_resubmit_job", "test_submit_ray_job_to_existing"):
        assert re.search(rf"{name}\w* .*(\n.*)*?\bok$", told, re.MULTILINE), told
    [count] = re.findall(r"^Ran (\d+) tests", told, re.MULTILINE)
    assert int(count) >= 32
    assert "skipped" not in told


@needs_python_client
def test_the_python_client_scales_a_cluster_that_it_built(dev: tuple[Process, Kubectl]):
    process, kubectl = dev
    with_python_client(kubectl, SCALE)
    workers = ("get", "pods", "-l", "ray.io/node-type=worker", "--no-headers")
    until(lambda: kubectl(*workers).count("Running") == 3, why=process.text)


@contextmanager
def api_server(kubectl: Kubectl, folder: Path) -> Iterator[str]:
    """KubeRay's API server on a port of its own; yields its address."""
    port, rpc = free_port(), free_port()
    with (folder / "apiserver.log").open("wb") as log:
        popen = subprocess.Popen(
            [APISERVER, f"-httpPortFlag=127.0.0.1:{port}", f"-rpcPortFlag=:{rpc}"],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=os.environ | {"KUBECONFIG": str(kubectl.kubeconfig)},
        )
    try:
        address = f"http://127.0.0.1:{port}"
        until(lambda: request(f"{address}/healthz")[0] == 200)
        yield address
    finally:
        popen.kill()
        popen.wait()


def request(
    url: str, method: str = "GET", body: Any = None, kind: str = "application/json"
) -> tuple[int, bytes]:
    data = None if body is None else msgspec.json.encode(body)
    sent = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
    try:
        with urllib.request.urlopen(sent, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except OSError:
        return 0, b""


@needs_apiserver
def test_the_api_server_is_a_way_to_clusters_their_events_and_their_dashboards(
    dev: tuple[Process, Kubectl], tmp_path: Path
):
    process, kubectl = dev
    container = {"name": "ray", "image": "rayproject/ray:2.60.0"}
    template = {"spec": {"containers": [container]}}
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "a"},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [{"groupName": "workers", "replicas": 1, "template": template}],
        },
    }
    with api_server(kubectl, tmp_path) as address:
        clusters = f"{address}/apis/ray.io/v1/namespaces/default/rayclusters"

        def state() -> str:
            cluster = msgspec.json.decode(request(f"{clusters}/a")[1])
            return cluster.get("status", {}).get("state", "")

        assert request(clusters, "POST", cluster)[0] == 201
        until(lambda: state() == "ready", why=process.text)
        listed = msgspec.json.decode(request(f"{address}/apis/ray.io/v1/rayclusters")[1])
        assert [each["metadata"]["name"] for each in listed["items"]] == ["a"]

        _, events = request(f"{address}/apis/events.k8s.io/v1/namespaces/default/events")
        told = msgspec.json.decode(events)["items"]
        assert "CreatedHeadPod" in {event["reason"] for event in told}
        assert {event["regarding"]["apiVersion"] for event in told} == {"ray.io/v1"}

        services = f"{address}/api/v1/namespaces/default/services"
        status, version = request(f"{services}/a-head-svc:8265/proxy/api/version")
        assert (status, msgspec.json.decode(version)["ray_version"]) == (200, "2.60.0")
        assert request(f"{services}/another:8265/proxy/")[0] == 404

        suspended = {"spec": {"suspend": True}}
        merge = "application/merge-patch+json"
        assert request(f"{clusters}/a", "PATCH", suspended, merge)[0] == 200
        until(lambda: state() == "suspended", why=process.text)
        assert request(f"{clusters}/a", "DELETE")[0] == 200
        until(lambda: request(f"{clusters}/a")[0] == 404)
