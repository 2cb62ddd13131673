"""Alerts that a fault provokes in an operator: its real metrics in the real rules, in virtual time.

Once a minute of virtual time the series are taken as a scrape would, and promtool evaluates the
rules, unchanged, at the end.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client import CollectorRegistry

from controller.kube.client import Client
from controller.runtime.kind import Kind
from controller.runtime.metrics import RestClientMetrics
from controller.runtime.operator import Operator
from controller.runtime.settings import Settings
from controller.testing.cluster import Cluster, RunningOperator
from controller.testing.faults import FaultyTransport, Rule
from tests.chart.prometheus import JOB, NAMESPACE, PROMTOOL, alert_groups, alerts

_MINUTE = 60.0
_ABSENT = "_"
_ASKED_FOR = set(re.findall(r"\b(\w+)\{", " ".join(rule["expr"] for rule in alerts().values())))


class Scrapes:
    """What Prometheus knows of one operator."""

    def __init__(self, pod: str = "p") -> None:
        self._pod = pod
        self._values: dict[str, list[str]] = {}
        self.minutes = 0

    async def follow(self, registry: CollectorRegistry | None, *, minutes: int) -> None:
        """Scrape so many times; without a registry the pod does not answer."""
        for _ in range(minutes):
            await asyncio.sleep(_MINUTE)
            for name, value in self._samples(registry):
                values = self._values.setdefault(name, [])
                values += [_ABSENT] * (self.minutes - len(values))
                values.append(value)
            self.minutes += 1

    def _samples(self, registry: CollectorRegistry | None) -> Iterable[tuple[str, str]]:
        if registry is None:
            return
        for metric in registry.collect():
            for sample in metric.samples:
                if sample.name in _ASKED_FOR:
                    labels = {"namespace": NAMESPACE, **sample.labels, "job": JOB, "pod": self._pod}
                    told = ",".join(f"{name}={json.dumps(text)}" for name, text in labels.items())
                    yield f"{sample.name}{{{told}}}", repr(float(sample.value))

    def series(self) -> list[dict[str, str]]:
        """The series in promtool's notation, one value a minute."""
        return [
            {"series": name, "values": " ".join(values)} for name, values in self._values.items()
        ]


def firing(folder: Path, scrapes: Scrapes) -> dict[str, list[dict[str, str]]]:
    """The labels of all alerts that fire at the end, by the name of the alert."""
    groups = [
        group | {"rules": [rule | {"annotations": {}} for rule in group["rules"]]}
        for group in alert_groups()
    ]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    wanted = [
        {"alertname": name, "eval_time": f"{scrapes.minutes - 1}m", "exp_alerts": []}
        for name in alerts()
    ]
    test = {"interval": "1m", "input_series": scrapes.series(), "alert_rule_test": wanted}
    suite = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "tests.yaml").write_text(yaml.safe_dump(suite, width=1_000_000))
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", str(folder / "tests.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0 or "got:" in told, told
    return _got(told)


def _got(told: str) -> dict[str, list[dict[str, str]]]:
    """What promtool found instead of no alert."""
    found: dict[str, list[dict[str, str]]] = {}
    for labels in re.findall(r"Labels:\{(.*)\}$", told, re.MULTILINE):
        pairs = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
        found.setdefault(pairs.pop("alertname"), []).append(pairs)
    return found


def start(
    world: Cluster,
    *kinds: Kind[Any],
    registry: CollectorRegistry,
    rules: Iterable[Rule] = (),
    **limits: int,
) -> RunningOperator:
    """Start an operator with these limits whose requests are measured, behind these faults."""
    faulty = FaultyTransport(world.transport, list(rules), clock=world.loop)
    client = Client(
        faulty,
        user_agent="operator",
        clock=world.loop,
        metrics=RestClientMetrics(registry).for_host("kube"),
    )
    operator = Operator(
        client,
        kinds,
        Settings(metrics_address="", health_address="", **limits),
        clock=world.loop,
        wall=world.wall,
        rng=random.Random(1),
        registry=registry,
    )
    running = RunningOperator(operator, faulty, kinds)
    world.operators.append(running)
    return running


HASTE: Final = 30
_UNITS: Final = {"m": 60, "h": 3600}
_RANGE = re.compile(r"\[(\d+)([mh])\]")
_AGE = re.compile(r"> (\d{3,})\b")


def hastened(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rules, but for the spans and ages that they name, all of which are minutes or more.

    The counts and shares that they name stay, and so do waits of seconds.
    """
    return [group | {"rules": list(map(_hastened, group["rules"]))} for group in groups]


def _hastened(rule: dict[str, Any]) -> dict[str, Any]:
    expression = _RANGE.sub(lambda found: f"[{_seconds(*found.groups())}s]", rule["expr"])
    expression = _AGE.sub(lambda found: f"> {int(found[1]) // HASTE}", expression)
    waits = {"for": f"{_seconds(rule['for'][:-1], rule['for'][-1])}s"} if "for" in rule else {}
    return rule | {"expr": expression} | waits


def _seconds(number: str, unit: str) -> int:
    return int(number) * _UNITS[unit] // HASTE
