"""Monitors and dashboard of Ray's own metrics: they ask for what a real Ray has."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART, needs_helm, only, rendered
from tests.chart.prometheus import PROMTOOL, needs_promtool

RECORDED = {
    name: set(labels)
    for name, *labels in (
        line.split()
        for line in Path(__file__).with_name("ray_metrics.txt").read_text().splitlines()
        if not line.startswith("#")
    )
}
DASHBOARD = json.loads((CHART / "ray-dashboard.json").read_text())
PANELS = {each["title"]: each for each in DASHBOARD["panels"] if each["type"] != "row"}
OF_PROMETHEUS = {"namespace", "pod", "ray_io_cluster"}
"""Labels that the PodMonitor gives each series."""


def queries(title: str) -> list[str]:
    """The queries of a panel for all clusters."""
    found = [target["expr"] for target in PANELS[title]["targets"]]
    found = [query.replace("$__rate_interval", "1m") for query in found]
    return [re.sub(r"\$\w+", ".*", query) for query in found]


@pytest.mark.parametrize("title", PANELS)
def test_a_panel_asks_for_metrics_and_labels_that_ray_has(title: str):
    for query, target in zip(queries(title), PANELS[title]["targets"], strict=True):
        selected = re.findall(r"([a-z]\w+){([^}]*)}", query)
        assert selected
        shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        grouped = {
            name for names in re.findall(r"\bby \(([^)]*)\)", query) for name in names.split(", ")
        } - {""}
        assert shown - {"pod"} <= grouped
        for metric, matchers in selected:
            assert metric in RECORDED
            labels = {*re.findall(r"(\w+)=", matchers), *grouped}
            assert labels <= RECORDED[metric] | OF_PROMETHEUS, metric


@needs_promtool
@pytest.mark.slow
def test_prometheus_parses_every_query(tmp_path: Path):
    rules = [{"record": "a", "expr": query} for title in PANELS for query in queries(title)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "ray", "rules": rules}]}))
    assert PROMTOOL
    command = [PROMTOOL, "check", "rules", "--lint=none", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def monitors(*values: str) -> list[dict[str, Any]]:
    objects = rendered(CHART, "rayMetrics.podMonitor.enabled=true", *values)
    return [each for each in objects if each["kind"] == "PodMonitor"]


@pytest.mark.slow
@needs_helm
def test_monitors_find_the_pods_of_the_namespaces_that_are_served():
    everywhere = monitors("rayMetrics.podMonitor.additionalLabels.release=prometheus")
    chosen = {
        each["spec"]["selector"]["matchLabels"]["ray.io/node-type"]: each for each in everywhere
    }
    assert chosen.keys() == {"head", "worker"}
    for each in everywhere:
        assert each["metadata"]["labels"]["release"] == "prometheus"
        assert each["spec"]["namespaceSelector"] == {"any": True}
        for endpoint in each["spec"]["podMetricsEndpoints"]:
            assert "ray_io_cluster" in {rule["targetLabel"] for rule in endpoint["relabelings"]}
    ports = [each["port"] for each in chosen["head"]["spec"]["podMetricsEndpoints"]]
    assert ports == ["metrics", "as-metrics", "dash-metrics"]
    for each in monitors("watchNamespace={a,b}"):
        assert each["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}


@pytest.mark.slow
@needs_helm
def test_without_the_values_there_is_neither_monitor_nor_dashboard():
    assert not {"PodMonitor", "ConfigMap"} & {each["kind"] for each in rendered(CHART)}


@pytest.mark.slow
@needs_helm
def test_grafanas_sidecar_finds_the_dashboard_of_ray():
    prefix = "rayMetrics.grafanaDashboard."
    values = "enabled=true", "namespace=grafana"
    found = only("ConfigMap", rendered(CHART, *(prefix + each for each in values)))
    assert found["metadata"]["namespace"] == "grafana"
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["ray.json"]) == DASHBOARD
