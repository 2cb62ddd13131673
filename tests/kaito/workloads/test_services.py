"""What the services of a model server expose."""

from __future__ import annotations

import pytest

from controller.kaito.api.options import KaitoOptions
from controller.kaito.workloads import services
from tests.kaito.support import workspace

ALWAYS = ["http", "ray", "dashboard"]


@pytest.mark.parametrize(
    ("runtime", "balanced", "kind", "ports"),
    [
        ("vllm", "", "ClusterIP", [*ALWAYS, "kv-events"]),
        ("vllm", "True", "LoadBalancer", ALWAYS),
        ("vllm", "true", "ClusterIP", [*ALWAYS, "kv-events"]),
        ("transformers", "", "ClusterIP", ALWAYS),
        ("transformers", "True", "LoadBalancer", ALWAYS),
    ],
)
def test_events_of_the_cache_are_for_the_cluster_only(
    runtime: str, balanced: str, kind: str, ports: list[str]
):
    annotations = {"kaito.sh/runtime": runtime, "kaito.sh/enablelb": balanced}
    meta = workspace(annotations=annotations).metadata
    request, _ = services(meta, KaitoOptions())
    assert request["spec"]["type"] == kind
    assert [port["name"] for port in request["spec"]["ports"]] == ports
