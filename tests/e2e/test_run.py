"""`manta run` as a process: how it stops, and what it says when it cannot work."""

from __future__ import annotations

import asyncio
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.development.runs import DevContext
from controller.kube.resources import PODS
from controller.ray.api import custom_resource_definitions
from devcluster.nodes import NodeSettings
from tests.e2e.processes import (
    ROOT,
    manta,
    manta_dev,
    manta_once,
    needs_kubectl,
    until,
    write_kubeconfig,
)
from tests.ports import free_port

pytestmark = pytest.mark.timeout(400)

EXAMPLE = str(ROOT / "examples" / "raycluster.yaml")


def http(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def kubeconfig_for(folder: Path, url: str) -> Path:
    path = folder / "broken-kubeconfig"
    DevContext("broken", folder / "run").add(path, cluster={"server": url}, user={})
    return path


@pytest.mark.slow
@needs_kubectl
def test_sigterm_ends_the_operator_cleanly_and_nothing_is_left_half_done(tmp_path: Path):
    health, metrics = free_port(), free_port()
    with manta_dev(tmp_path, "--no-operator") as (_, kubectl):
        arguments = [
            "run",
            f"--kubeconfig={kubectl.kubeconfig}",
            f"--health-address=127.0.0.1:{health}",
            f"--metrics-address=127.0.0.1:{metrics}",
            "--log-format=json",
        ]
        with manta(tmp_path, *arguments, name="run") as operator:
            until(lambda: http(health, "/readyz")[0] == 200, why=operator.text)
            kubectl("apply", "-f", EXAMPLE)
            until(lambda: "example-head" in kubectl("get", "pods"), why=operator.text)
            operator.popen.send_signal(signal.SIGTERM)
            assert operator.wait(90) == 0
            assert "Traceback" not in operator.text()

        pods_before = kubectl("get", "pods", "-o", "name")
        with manta(tmp_path, *arguments, name="again") as operator:
            until(
                lambda: kubectl.json("get", "raycluster", "example").get("status", {}).get("state"),
                why=operator.text,
            )
            assert set(pods_before.split()) <= set(kubectl("get", "pods", "-o", "name").split())
            assert len(kubectl("get", "pods", "-o", "name").split()) == 3
            status, text = http(metrics, "/metrics")
            assert status == 200
            assert "controller_runtime_reconcile_total" in text
            operator.popen.send_signal(signal.SIGTERM)
            assert operator.wait(90) == 0


@pytest.mark.slow
def test_a_broken_kubeconfig_is_one_clear_paragraph(tmp_path: Path):
    broken = tmp_path / "kubeconfig"
    broken.write_text("clusters: [")
    done = manta_once("run", f"--kubeconfig={broken}")
    assert done.returncode == 2
    assert str(broken) in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 6

    missing = manta_once("run", f"--kubeconfig={tmp_path / 'nowhere'}")
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr


QUICK = ("--health-address=", "--metrics-address=", "--sync-timeout=10", "--log-format=json")


def failure(stderr: str) -> str:
    """The one paragraph in which the operator says why it ended."""
    lines = [msgspec.json.decode(line) for line in stderr.splitlines() if line.startswith("{")]
    [failed] = [line for line in lines if line["event"] == "operator.failed"]
    return str(failed["error"])


@pytest.mark.slow
def test_a_setting_that_makes_no_sense_is_named():
    done = manta_once("run", "--workers=0")
    assert done.returncode == 2
    assert "workers must be at least 1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_unreachable_server_is_named_with_the_remedy(tmp_path: Path):
    port = free_port()
    config = kubeconfig_for(tmp_path, f"http://127.0.0.1:{port}")
    done = manta_once("run", f"--kubeconfig={config}", *QUICK)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in failure(done.stderr)
    assert "check the address and the network" in failure(done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@needs_kubectl
def test_missing_crds_are_named_with_the_command_that_installs_them(tmp_path: Path):
    nothing = tmp_path / "nothing.yaml"
    nothing.write_text("# no definitions\n")
    with manta_dev(tmp_path, "--no-operator", "--crds", str(nothing)) as (_, kubectl):
        done = manta_once("run", f"--kubeconfig={kubectl.kubeconfig}", *QUICK)
    assert done.returncode == 1
    assert "rayclusters.ray.io" in failure(done.stderr)
    assert "manta crds | kubectl apply" in failure(done.stderr)


@pytest.mark.slow
@pytest.mark.real_time
async def test_missing_rights_are_named_by_verb_resource_and_scope(tmp_path: Path):
    async with embedded_cluster(
        port=0, crds=custom_resource_definitions(), nodes=NodeSettings()
    ) as cluster:
        cluster.server.audit.authorizer = lambda asked: (
            (asked.verb, asked.resource) != ("list", "pods")
        )
        config = tmp_path / "kubeconfig"
        write_kubeconfig(config, cluster)
        done = await asyncio.to_thread(manta_once, "run", f"--kubeconfig={config}", *QUICK)
    assert done.returncode == 1
    said = failure(done.stderr)
    assert 'cannot list resource "pods"' in said
    assert "at the cluster scope" in said
    assert 'Grant the verbs "list" and "watch" on pods' in said


@pytest.mark.slow
@pytest.mark.real_time
async def test_a_second_operator_is_named_and_leaves_the_first_one_ready(tmp_path: Path):
    health, metrics, config = free_port(), free_port(), tmp_path / "kubeconfig"
    another = {
        "metadata": {
            "name": "another",
            "labels": {"app.kubernetes.io/component": "kuberay-operator"},
        },
        "spec": {"containers": [{"name": "operator", "image": "operator"}]},
    }
    arguments = [
        f"--kubeconfig={config}",
        f"--health-address=127.0.0.1:{health}",
        f"--metrics-address=127.0.0.1:{metrics}",
    ]
    async with embedded_cluster(
        port=0, crds=custom_resource_definitions(), nodes=NodeSettings()
    ) as cluster:
        write_kubeconfig(config, cluster)
        await cluster.client("user").create(PODS, "default", another)
        with manta(tmp_path, "run", *arguments) as operator:

            async def reached(condition: Callable[[], bool]) -> None:
                await asyncio.to_thread(until, condition, why=operator.text)

            await reached(lambda: "pod default/another" in operator.text())
            counted = 'manta_other_operators{kind="kuberay"} 1.0'
            await reached(lambda: counted in http(metrics, "/metrics")[1])
            await reached(lambda: http(health, "/readyz") == (200, "ok"))


@pytest.mark.slow
@needs_kubectl
def test_readiness_says_why_while_caches_cannot_be_filled(tmp_path: Path):
    health = free_port()
    config = kubeconfig_for(tmp_path, f"http://127.0.0.1:{free_port()}")
    arguments = [
        f"--kubeconfig={config}",
        f"--health-address=127.0.0.1:{health}",
        "--metrics-address=",
    ]
    with manta(tmp_path, "run", *arguments, name="run") as operator:
        until(lambda: http(health, "/readyz")[0] == 500, why=operator.text)
        until(lambda: "cannot list" in http(health, "/readyz")[1], why=operator.text)
        assert http(health, "/healthz")[0] == 200
        operator.popen.send_signal(signal.SIGTERM)
        assert operator.wait(90) == 0


@pytest.mark.slow
@needs_kubectl
def test_a_second_signal_ends_the_process_at_once(tmp_path: Path):
    with manta_dev(tmp_path) as (process, _):
        process.popen.send_signal(signal.SIGINT)
        process.popen.send_signal(signal.SIGINT)
        assert process.wait(90) in {0, 1}


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_clear_line(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = manta_once("dev", f"--port={port}", f"--kubeconfig={tmp_path / 'kubeconfig'}")
    assert done.returncode == 2
    assert f"cannot listen on port {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_command_and_its_defaults():
    text = manta_once("--help").stdout
    for command in ("run", "dev", "demo", "crds"):
        assert command in text
    assert "(default: 16)" in manta_once("run", "--help").stdout
    assert manta_once("--version").stdout.startswith("manta ")
