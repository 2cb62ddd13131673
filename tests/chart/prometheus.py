"""Real promtool and Prometheus, and the expressions of the chart, for the tests that need them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART
from tests.docs.metrics_page import metrics

PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")

needs_promtool = pytest.mark.skipif(not PROMTOOL, reason="SKIP: no promtool on this machine")
needs_prometheus = pytest.mark.skipif(not PROMETHEUS, reason="SKIP: no prometheus on this machine")

JOB = "manta-operator"
NAMESPACE = "ray-system"

_SELECTOR = re.compile(r"\b([a-z][a-z0-9_]*)\{([^}]*)\}")
_NAMES = re.compile(r"\b(?:[a-z]+_){2,}[a-z]+\b")
_LABEL = re.compile(r"([a-z_]+) *(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|without) \(([^)]*)\)")
_OF_PROMETHEUS = {"job", "namespace"}
_FUNCTIONS = {"histogram_quantile", "label_replace", "max_over_time"}


def alert_groups(job: str = JOB, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """The groups of the chart's alerts, for a release of this full name and namespace."""
    objects = f'job="{job}"'
    text = (CHART / "alerts.yaml").read_text()
    text = text.replace("$OPERATOR", f'{objects},namespace="{namespace}"')
    return yaml.safe_load(text.replace("$OBJECTS", objects))


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in alert_groups() for rule in group["rules"]}


def unknown_in(expression: str) -> set[str]:
    """The metrics and labels of an expression that the operator does not have."""
    return set(_unknown(expression))


def _unknown(expression: str) -> Iterator[str]:
    samples = {name: labels for each in metrics() for name, labels in each.samples()}
    selected = _SELECTOR.findall(expression)
    labels: set[str] = set(_OF_PROMETHEUS)
    for name, matchers in selected:
        if name not in samples:
            yield name
        labels |= samples.get(name, frozenset())
        known = samples.get(name, frozenset()) | _OF_PROMETHEUS
        yield from (
            f"{name}{{{label}}}" for label in _LABEL.findall(matchers) if label not in known
        )
    for grouping in _GROUPING.findall(expression):
        yield from (label for label in re.split(r", *", grouping) if label not in labels)
    bare = set(_NAMES.findall(re.sub(r'"[^"]*"', "", expression)))
    yield from bare - {name for name, _ in selected} - _FUNCTIONS - labels
