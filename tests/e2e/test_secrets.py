"""Nothing that must stay secret leaves the operator in a log, an event, a status or a metric."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.manifests import load
from controller.kube.resources import SECRETS
from controller.ray.api import RAYJOBS, custom_resource_definitions
from devcluster.nodes import NodeSettings
from tests.e2e.processes import ROOT, manta, until, write_kubeconfig
from tests.ports import free_port

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(240)]

OF_THE_ENVIRONMENT = "environment-marked-5f1c"
OF_THE_RUNTIME_ENV = "runtime-env-marked-93ab"
OF_THE_POD = "pod-variable-marked-7e02"
NAMESPACE = "default"


def job(cluster: dict[str, Any]) -> dict[str, Any]:
    """A job with a token, a runtime environment and pods that hold what nobody else may know."""
    (container,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "DB_PASSWORD", "value": OF_THE_POD}]
    environment = {"env_vars": {"HF_TOKEN": OF_THE_RUNTIME_ENV}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "secretive"},
        "spec": {
            "entrypoint": "true",
            "submissionMode": "HTTPMode",
            "runtimeEnvYAML": json.dumps(environment),
            "rayClusterSpec": cluster | {"rayVersion": "2.55.0", "authOptions": {"mode": "token"}},
        },
    }


def scrape_after_requests(port: int) -> str:
    """All metrics, once Ray's dashboard, which does not exist, was asked in vain."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    except OSError:
        return ""
    return text if "manta_dashboard_request_seconds_count{" in text else ""


@pytest.mark.slow
async def test_no_secret_leaves_the_operator_in_a_whole_run(tmp_path: Path):
    port, kubeconfig = free_port(), tmp_path / "kubeconfig"
    crds, nodes = custom_resource_definitions(), NodeSettings(start_delay=0.1, ready_delay=0.1)
    async with embedded_cluster(port=0, crds=crds, nodes=nodes) as cluster:
        write_kubeconfig(kubeconfig, cluster)
        [manifest] = load(ROOT / "examples" / "raycluster.yaml")
        user = cluster.client("user")
        await user.create(RAYJOBS, NAMESPACE, job(manifest["spec"]))
        where = f"--kubeconfig={kubeconfig}", f"--metrics-address=127.0.0.1:{port}"
        words = "--health-address=", "--log-level=debug", "--log-format=json"
        secret = {"AWS_SECRET_ACCESS_KEY": OF_THE_ENVIRONMENT}
        with manta(tmp_path, "run", *where, *words, **secret) as operator:
            metrics = await asyncio.to_thread(
                until, lambda: scrape_after_requests(port), seconds=100, why=operator.text
            )
            events = await user.request_json("GET", "/apis/events.k8s.io/v1/events")
            stored = await user.get_raw(RAYJOBS, NAMESPACE, "secretive")
            made = await user.get_raw(SECRETS, NAMESPACE, stored["status"]["rayClusterName"])
            operator.popen.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(operator.wait, 60) == 0
    told = {
        "log": operator.text(),
        "metrics": metrics,
        "events": json.dumps(events["items"]),
        "status": json.dumps(stored["status"]),
    }
    token = base64.b64decode(made["data"]["auth_token"]).decode()
    secrets = {token, cluster.token, OF_THE_ENVIRONMENT, OF_THE_RUNTIME_ENV, OF_THE_POD}
    spellings = secrets | {base64.b64encode(each.encode()).decode() for each in secrets}
    for where_told, text in told.items():
        assert len(text) > 200, where_told
        assert [each for each in spellings if each in text] == [], where_told
