"""The tables of docs/metrics.md: every metric that the operator registers.

After a change, run `.venv/bin/python -m tests.docs.metrics_page`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from msgspec import Struct
from prometheus_client import CollectorRegistry

from controller.command.kinds import KindSettings
from controller.command.operator import operator_for
from controller.command.run import elected
from controller.kube.credentials import StaticCredentials
from controller.ray.api import FeatureGates
from controller.runtime.settings import Settings
from tests.docs.tree import ROOT
from tests.docs.upgrade_pictures import with_blocks

PAGE: Final = ROOT / "docs" / "metrics.md"

SECTIONS: Final = {
    "clusters": ("kuberay_cluster_", "manta_cluster_", "manta_upgrade_"),
    "jobs": ("kuberay_job_", "manta_job_"),
    "services": ("kuberay_service_", "manta_service_"),
    "fleets": ("manta_fleet_",),
    "workspaces": ("kaito_",),
    "dashboards": ("manta_dashboard_",),
    "reconciles": ("controller_runtime_", "workqueue_", "manta_"),
    "election": ("leader_election_",),
    "caches": ("informer_", "manta_expectations_", "stale_sync_"),
    "requests": ("rest_client_", "manta_client_", "manta_events_"),
    "process": ("process_", "manta_build", "manta_event_loop_", "manta_gc_"),
}
"""Blocks of the page by the prefixes of their metrics; the longest prefix decides."""

_OF_HISTOGRAMS: Final = ("_bucket", "_sum", "_count")


class Metric(Struct, frozen=True, order=True):
    """A metric as Prometheus sees it.

    Attributes:
        name: of its samples; of a histogram without the ending.
        labels: besides those that Prometheus adds; without `le`.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str

    def samples(self) -> Iterator[tuple[str, frozenset[str]]]:
        """The names of its samples, each with its labels."""
        if self.kind == "histogram":
            for ending in _OF_HISTOGRAMS:
                more = ("le",) if ending == "_bucket" else ()
                yield self.name + ending, frozenset((*self.labels, *more))
        else:
            yield self.name, frozenset(self.labels)


@cache
def metrics() -> tuple[Metric, ...]:
    """All metrics of an operator with every kind, sorted by name."""
    return tuple(sorted(asyncio.run(_registered())))


async def _registered() -> set[Metric]:
    made: list[CollectorRegistry] = []

    def elect(registry: CollectorRegistry) -> Any:
        made.append(registry)
        return elected(registry, namespace="n", user_agent="", kubeconfig=None, context=None)

    credentials = StaticCredentials("http://127.0.0.1:1")
    kinds = KindSettings.from_environment(FeatureGates({"Workspace": True}), {})
    async with operator_for(
        credentials, Settings(), user_agent="", kind_settings=kinds, own_pod="", elect=elect
    ):
        (registry,) = made
        return {
            metric for collector in registry._collector_to_names for metric in _described(collector)
        }


def _described(collector: Any) -> Iterator[Metric]:
    labels = getattr(collector, "_labelnames", None)  # a Counter and its like
    for family in collector.collect():
        names = tuple(family._labelnames if labels is None else labels)
        name = family.name
        if family.type == "counter":
            name += "_total"
        if family.type == "info":
            name, names = f"{name}_info", tuple(family.samples[0].labels)
        kind = "gauge" if family.type == "info" else family.type
        yield Metric(name, kind, names, family.documentation.rstrip("."))


def section_of(metric: Metric) -> str:
    """The block of the page that a metric belongs to."""
    fitting = {
        prefix: section
        for section, prefixes in SECTIONS.items()
        for prefix in prefixes
        if metric.name.startswith(prefix)
    }
    return fitting[max(fitting, key=len)]


def table(section: str) -> str:
    rows = ["| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{each.name}` | {each.kind} | {_listed(each.labels)} | {each.text} |"
        for each in metrics()
        if section_of(each) == section
    ]
    return "\n".join(rows)


def _listed(labels: tuple[str, ...]) -> str:
    if labels[:3] == ("name", "namespace", "uid"):
        labels = ("*object*", *labels[3:])
    return ", ".join(each if each.startswith("*") else f"`{each}`" for each in labels)


def main() -> None:
    PAGE.write_text(with_blocks(PAGE.read_text(), {name: table(name) for name in SECTIONS}))


if __name__ == "__main__":
    main()
