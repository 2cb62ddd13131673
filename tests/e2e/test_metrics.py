"""One scrape of a running operator shows what dashboards of controller-runtime and KubeRay read."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.manifests import load
from controller.ray.api import RAYCLUSTERS, RAYJOBS, custom_resource_definitions
from devcluster.nodes import NodeSettings
from tests.e2e.processes import ROOT, manta, until, write_kubeconfig
from tests.ports import free_port

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(400)]

CONTROLLER = {"controller": "raycluster-controller"}
QUEUE = CONTROLLER | {"name": "raycluster-controller"}
PODS = {"group": "", "version": "v1", "resource": "pods"}
CLUSTER = {"namespace": "default", "name": "example"}
JOB = {"namespace": "default", "name": "waiting"}

AT_LEAST = [  # sample, some of its labels, least value soon after a cluster of three pods is ready
    ("workqueue_depth", QUEUE, 0),
    ("workqueue_adds_total", QUEUE, 2),
    ("workqueue_retries_total", QUEUE, 0),
    ("workqueue_queue_duration_seconds_count", QUEUE, 2),
    ("workqueue_work_duration_seconds_count", QUEUE, 2),
    ("workqueue_unfinished_work_seconds", QUEUE, 0),
    ("workqueue_longest_running_processor_seconds", QUEUE, 0),
    ("controller_runtime_reconcile_total", CONTROLLER | {"result": "success"}, 1),
    ("controller_runtime_reconcile_errors_total", CONTROLLER, 0),
    ("controller_runtime_reconcile_time_seconds_count", CONTROLLER, 2),
    ("controller_runtime_max_concurrent_reconciles", CONTROLLER, 16),
    ("controller_runtime_active_workers", CONTROLLER, 0),
    ("rest_client_requests_total", {"code": "201", "method": "POST"}, 4),
    ("rest_client_requests_total", {"code": "200", "method": "PATCH"}, 1),
    ("rest_client_request_duration_seconds_count", {"verb": "POST"}, 4),
    ("informer_synced", PODS, 1),
    ("informer_objects", PODS, 3),
    ("informer_store_resource_version", PODS, 1),
    ("kuberay_cluster_info", CLUSTER | {"owner_kind": "None"}, 1),
    ("kuberay_cluster_condition_provisioned", CLUSTER | {"condition": "true"}, 1),
    ("kuberay_cluster_provisioned_duration_seconds", CLUSTER, 0),
    ("kuberay_job_info", JOB, 1),
    ("kuberay_job_deployment_status", JOB | {"deployment_status": "Suspended"}, 1),
    ("manta_job_failed_attempts", JOB, 0),
    ("manta_dashboard_actors", {}, 0),
    ("manta_dashboard_requests_in_flight", {"responsiveness": "responsive"}, 0),
    ("controller_runtime_max_concurrent_reconciles", {"controller": "rayjob-controller"}, 16),
    ("controller_runtime_max_concurrent_reconciles", {"controller": "raycronjob-controller"}, 16),
    ("manta_writes_total", CONTROLLER | {"verb": "create"}, 4),
    ("manta_event_loop_lag_seconds_count", {}, 0),
    ("manta_other_operators", {"kind": "kuberay"}, 0),
    ("process_resident_memory_bytes", {}, 1),
]


def scrape(port: int) -> list[Sample]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    except OSError:
        return []
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def too_small(samples: list[Sample]) -> list[str]:
    """The rows of AT_LEAST that these samples do not reach."""

    def value(name: str, labels: dict[str, str]) -> float:
        found = [s for s in samples if s.name == name and labels.items() <= s.labels.items()]
        return sum(sample.value for sample in found) if found else float("-inf")

    return [f"{name} {labels}" for name, labels, least in AT_LEAST if value(name, labels) < least]


def suspended_job(cluster: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": JOB["name"]},
        "spec": {
            "entrypoint": "true",
            "suspend": True,
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": cluster,
        },
    }


@pytest.mark.slow
async def test_one_scrape_shows_upstreams_metrics(tmp_path: Path):
    port, kubeconfig = free_port(), tmp_path / "kubeconfig"
    crds, nodes = custom_resource_definitions(), NodeSettings(start_delay=0.1, ready_delay=0.1)
    async with embedded_cluster(port=0, crds=crds, nodes=nodes) as cluster:
        write_kubeconfig(kubeconfig, cluster)
        [manifest] = load(ROOT / "examples" / "raycluster.yaml")
        await cluster.client("user").create(RAYCLUSTERS, "default", manifest)
        await cluster.client("user").create(RAYJOBS, "default", suspended_job(manifest["spec"]))
        addresses = [f"--metrics-address=127.0.0.1:{port}", "--health-address="]
        with manta(tmp_path, "run", f"--kubeconfig={kubeconfig}", *addresses) as operator:
            await asyncio.to_thread(
                until,
                lambda: not too_small(scrape(port)),
                why=lambda: f"{too_small(scrape(port))}\n{operator.text()}",
            )
