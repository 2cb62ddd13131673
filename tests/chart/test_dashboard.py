"""Grafana's dashboard of the chart: its queries, and the alerts, in a real Prometheus."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.manifests import load
from controller.devcluster.nodes import NodeSettings
from controller.ray.api import RAYCLUSTERS, custom_resource_definitions
from tests.chart.helm import CHART, ROOT, needs_helm, rendered
from tests.chart.prometheus import (
    JOB,
    NAMESPACE,
    PROMETHEUS,
    alert_groups,
    alerts,
    needs_prometheus,
    unknown_in,
)
from tests.e2e.processes import free_port, manta, until, write_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.real_time

DASHBOARD = json.loads((CHART / "dashboard.json").read_text())
PANELS = {each["title"]: each for each in DASHBOARD["panels"] if each["type"] != "row"}
NOTHING_TO_SHOW = {
    *("RayClusters that are not ready", "RayJobs by state", "RayServices by state"),
    *("RayClusters being upgraded", "Requests to dashboards", "RayJobs", "RayServices"),
}
"""Panels without data where there is just one ready RayCluster."""

Answer = dict[str, Any]


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


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, path: str, **arguments: str) -> Any:
        """What it answers; None as long as it does not."""
        url = f"{self._url}{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(self, expression: str) -> list[Any]:
        """The series of an expression; a refused one raises TypeError."""
        return self.ask("query", query=expression)["result"]

    def has_scraped(self) -> bool:
        """Whether rates can be computed of what happened to the cluster."""
        ready = 'kuberay_cluster_condition_provisioned{condition="true"}'
        found = self.ask("query", query=f"count_over_time({ready}[1m]) > 3")
        return bool(found and found["result"])

    def evaluated(self) -> list[Answer]:
        """The alerts, once each was evaluated."""
        groups = (self.ask("rules") or {"groups": []})["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else []


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[Prometheus]:
    """Scrapes a port of this machine as the chart's monitors would, and has the chart's alerts."""
    job = {
        "job_name": JOB,
        "honor_labels": True,
        "static_configs": [
            {"targets": [f"127.0.0.1:{target}"], "labels": {"namespace": NAMESPACE, "pod": "p"}}
        ],
    }
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [job],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": alert_groups()}))
    port = free_port()
    arguments = [
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        popen = subprocess.Popen([str(PROMETHEUS), *arguments], stderr=log, cwd=folder)
    try:
        yield Prometheus(port)
    finally:
        popen.kill()
        popen.wait()


@pytest.mark.slow
@needs_prometheus
@pytest.mark.timeout(120)
async def test_prometheus_knows_what_the_dashboard_and_the_alerts_ask_for(tmp_path: Path):
    port, kubeconfig = free_port(), tmp_path / "kubeconfig"
    crds, nodes = custom_resource_definitions(), NodeSettings(start_delay=0.1, ready_delay=0.1)
    async with embedded_cluster(port=0, crds=crds, nodes=nodes) as cluster:
        write_kubeconfig(kubeconfig, cluster)
        [manifest] = load(ROOT / "examples" / "raycluster.yaml")
        arguments = (
            f"--kubeconfig={kubeconfig}",
            f"--metrics-address=127.0.0.1:{port}",
            "--health-address=",
            "--enable-leader-election=true",
            "--leader-election-namespace=default",
        )
        with manta(tmp_path, "run", *arguments) as operator, prometheus(tmp_path, port) as found:
            await asyncio.to_thread(
                until, lambda: found.ask("query", query="informer_synced"), why=operator.text
            )
            await cluster.client("user").create(RAYCLUSTERS, "default", manifest)
            await asyncio.to_thread(until, found.has_scraped, seconds=60, why=operator.text)
            rules = await asyncio.to_thread(until, found.evaluated)
            shown = {
                title: await asyncio.to_thread(lambda t=title: [found.query(q) for q in queries(t)])
                for title in PANELS
            }
    assert {rule["name"]: rule["health"] for rule in rules} == dict.fromkeys(alerts(), "ok")
    assert [rule["name"] for rule in rules if rule["alerts"]] == []
    empty = {title for title, answers in shown.items() if not all(answers)}
    assert empty == NOTHING_TO_SHOW
