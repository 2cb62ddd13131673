"""Grafana's dashboard of the chart: its queries, and the alerts, in a real Prometheus."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.manifests import load
from controller.ray.api import RAYCLUSTERS, custom_resource_definitions
from devcluster.nodes import NodeSettings
from tests.chart.helm import CHART, ROOT, needs_helm, rendered
from tests.chart.prometheus import JOB, NAMESPACE, alerts, needs_prometheus, unknown_in
from tests.chart.running_prometheus import leave_a_lease, prometheus
from tests.e2e.processes import manta, until, write_kubeconfig
from tests.ports import free_port

pytestmark = pytest.mark.real_time

DASHBOARD = json.loads((CHART / "dashboard.json").read_text())
PANELS = {each["title"]: each for each in DASHBOARD["panels"] if each["type"] != "row"}
NOTHING_TO_SHOW = {
    *("RayClusters that are not ready", "RayJobs by state", "RayServices by state"),
    *("RayClusters being upgraded", "Requests to dashboards", "RayJobs", "RayServices"),
}
"""Panels without data where there is just one ready RayCluster."""


def queries(title: str) -> list[str]:
    """The queries of a panel, for a release in Prometheus."""
    variables = {"$job": JOB, "$namespace": NAMESPACE, "$__rate_interval": "1m"}
    found = [target["expr"] for target in PANELS[title]["targets"]]
    for name, value in variables.items():
        found = [query.replace(name, value) for query in found]
    return found


def test_the_dashboard_is_what_the_script_draws():
    drawn = [sys.executable, "scripts/draw-dashboard", "--check"]
    assert subprocess.run(drawn, cwd=ROOT, check=False).returncode == 0, "run the script"


@pytest.mark.parametrize("title", PANELS)
def test_a_panel_asks_for_metrics_and_labels_that_the_operator_has(title: str):
    for query, target in zip(queries(title), PANELS[title]["targets"], strict=True):
        assert unknown_in(query) == set()
        for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
            assert label in query or label == "pod"  # which Prometheus adds


def test_no_two_panels_have_a_title_or_a_place_in_common():
    rows = [each for each in DASHBOARD["panels"] if each["type"] == "row"]
    assert len(PANELS) + len(rows) == len(DASHBOARD["panels"])
    cells = [
        (x, y)
        for at in (each["gridPos"] for each in DASHBOARD["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


@pytest.mark.slow
@needs_helm
def test_grafanas_sidecar_finds_the_dashboard():
    prefix = "metrics.grafanaDashboard."
    values = "enabled=true", "namespace=grafana", "annotations.folder=Ray"
    objects = rendered(CHART, *(prefix + value for value in values))
    (found,) = [each for each in objects if each["kind"] == "ConfigMap"]
    assert found["metadata"]["namespace"] == "grafana"
    assert found["metadata"]["annotations"] == {"folder": "Ray"}
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["manta.json"]) == DASHBOARD


@pytest.mark.slow
@needs_prometheus
@pytest.mark.timeout(180)
async def test_prometheus_knows_what_the_dashboard_and_the_alerts_ask_for(tmp_path: Path):
    port, kubeconfig = free_port(), tmp_path / "kubeconfig"
    crds, nodes = custom_resource_definitions(), NodeSettings(start_delay=0.1, ready_delay=0.1)
    async with embedded_cluster(port=0, crds=crds, nodes=nodes) as cluster:
        write_kubeconfig(kubeconfig, cluster)
        await leave_a_lease(cluster.client("user"))
        [manifest] = load(ROOT / "examples" / "raycluster.yaml")
        arguments = (
            f"--kubeconfig={kubeconfig}",
            f"--metrics-address=127.0.0.1:{port}",
            "--health-address=",
            "--enable-leader-election=true",
            "--leader-election-namespace=default",
        )
        with (
            manta(tmp_path, "run", *arguments) as operator,
            prometheus(tmp_path, {NAMESPACE: port}) as found,
        ):
            await asyncio.to_thread(until, lambda: found.has("informer_synced"), why=operator.text)
            await cluster.client("user").create(RAYCLUSTERS, "default", manifest)
            await asyncio.to_thread(until, found.has_scraped, why=operator.text)
            rules = await asyncio.to_thread(until, found.evaluated)
            shown = {
                title: await asyncio.to_thread(lambda t=title: [found.query(q) for q in queries(t)])
                for title in PANELS
            }
    assert {rule["name"]: rule["health"] for rule in rules} == dict.fromkeys(alerts(), "ok")
    assert [rule["name"] for rule in rules if rule["alerts"]] == []
    empty = {title for title, answers in shown.items() if not all(answers)}
    assert empty == NOTHING_TO_SHOW
