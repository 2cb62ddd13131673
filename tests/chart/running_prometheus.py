"""A real Prometheus that scrapes ports of this machine."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from controller.command.run import LEASE_NAME
from controller.kube.client import Client
from controller.runtime.elector import LEASES, RELEASED_SECONDS, new_lease
from tests.chart.prometheus import JOB, PROMETHEUS, alert_groups
from tests.ports import free_port

Answer = dict[str, Any]


class Prometheus:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, path: str, **arguments: str) -> Any:
        """What it answers; None as long as it does not."""
        url = f"{self._url}{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(self, expression: str) -> list[Any]:
        """The series of an expression; a refused one raises TypeError."""
        return self.ask("query", query=expression)["result"]

    def history(self, expression: str, *, begin: float, end: float, step: float) -> list[Any]:
        """The series of an expression over a time, in seconds since 1970."""
        times = {"start": str(begin), "end": str(end), "step": str(step)}
        return self.ask("query_range", query=expression, **times)["result"]

    def has(self, expression: str) -> bool:
        """Whether an expression has series; it has none as long as Prometheus does not answer."""
        found = self.ask("query", query=expression)
        return bool(found and found["result"])

    def has_scraped(self) -> bool:
        """Whether rates can be computed of what happened to the cluster."""
        ready = 'kuberay_cluster_condition_provisioned{condition="true"}'
        return self.has(f"count_over_time({ready}[1m]) > 3")

    def evaluated(self) -> list[Answer]:
        """The alerts, once each was evaluated."""
        answer: Answer = self.ask("rules") or {"groups": []}
        rules: list[Answer] = [rule for group in answer["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else []

    def firing(self) -> list[dict[str, str]]:
        """The labels of the alerts that fire now."""
        answer: Answer = self.ask("alerts") or {"alerts": []}
        return [each["labels"] for each in answer["alerts"] if each["state"] == "firing"]


async def leave_a_lease(client: Client) -> None:
    """Create the lease as an earlier release leaves it: an operator takes it at once."""
    free = new_lease("default", LEASE_NAME, "", RELEASED_SECONDS, datetime.now(UTC))
    await client.create(LEASES, "default", free)


@contextmanager
def prometheus(
    folder: Path, targets: Mapping[str, int], groups: Sequence[Answer] = ()
) -> Generator[Prometheus]:
    """Scrapes ports of this machine as the chart's monitors would.

    Args:
        targets: the port of the operator in each namespace.
        groups: the alerts; without them those of the chart.
    """
    job = {
        "job_name": JOB,
        "honor_labels": True,
        "static_configs": [
            {
                "targets": [f"127.0.0.1:{port}"],
                "labels": {"namespace": namespace, "pod": "manta-operator-0"},
            }
            for namespace, port in targets.items()
        ],
    }
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [job],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    rules = {"groups": [*groups] or alert_groups()}
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
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
