"""The order of maps plays no part in a body, and odd specifications have one too."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, cast

import pytest

from controller.kaito.api.options import KaitoOptions
from controller.kaito.workloads.preset import services
from tests.kaito.support import workspace
from tests.kaito.workloads.given import Given, abridged, golden_names, read_golden


def shuffled(value: Any, draw: random.Random) -> Any:
    """The same data with the keys of each map in another order."""
    if isinstance(value, dict):
        items = list(cast("dict[str, Any]", value).items())
        draw.shuffle(items)
        return {key: shuffled(each, draw) for key, each in items}
    if isinstance(value, list):
        return [shuffled(each, draw) for each in cast("list[Any]", value)]
    return value


@pytest.mark.parametrize("name", list(golden_names()))
def test_the_order_of_maps_plays_no_part(name: str):
    given, _ = read_golden(name)
    made = given.bodies()
    for seed in range(3):
        draw = random.Random(seed)
        fields = ("resource", "inference", "tuning", "labels", "annotations", "node")
        other = replace(given, **{each: shuffled(getattr(given, each), draw) for each in fields})
        assert other.bodies() == made


@pytest.mark.parametrize(
    ("asked", "tolerated"),
    [
        ({"containers": [{"name": "a"}]}, False),
        ({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}, False),
        ({"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, True),
        ({"containers": [{"name": "a", "resources": {"requests": {"amd.com/gpu": 1}}}]}, True),
        (
            {
                "containers": [{"name": "a"}],
                "initContainers": [
                    {"name": "b", "resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}}
                ],
            },
            True,
        ),
        ({"containers": [{"name": "a"}], "resourceClaims": [{"name": "gpu"}]}, True),
    ],
)
def test_on_own_nodes_only_pods_that_ask_for_gpus_tolerate_the_taints_of_gpus(
    asked: dict[str, Any], tolerated: bool
):
    own = {"key": "team", "operator": "Exists"}
    template = {"spec": {**asked, "tolerations": [own]}}
    resource = {"labelSelector": {"matchLabels": {"apps": "own"}}}
    given = Given("own", resource, inference={"template": template}, options={"provisioner": "byo"})
    found = given.stateful_set()["spec"]["template"]["spec"]["tolerations"]
    assert [each["key"] for each in found] == ["team"] + tolerated * [
        "nvidia.com/gpu",
        "sku",
        "kubernetes.azure.com/scalesetpriority",
    ]


RESOURCE: dict[str, Any] = {"instanceType": "Standard_NC24ads_A100_v4", "labelSelector": {}}
PHI = {"name": "phi-4"}
ODD_INFERENCE: list[dict[str, Any]] = [
    {"preset": PHI, "adapters": [{"source": {"name": "a", "volumeSource": {"name": "b"}}}]},
    {"preset": {"name": "phi-4", "presetOptions": None}},
    {"preset": {"name": "MICROSOFT/Phi-4"}, "config": ""},
    {"template": {}},
    {"template": {"metadata": None, "spec": None}},
    {"template": {"metadata": 5, "spec": "text"}},
    {"template": {"metadata": {"labels": "x"}, "spec": {"tolerations": "x", "containers": 3}}},
    {"template": {"spec": {"containers": [None, 5, {"name": 3}]}}},
]


@pytest.mark.parametrize("inference", ODD_INFERENCE)
@pytest.mark.parametrize("vllm", [True, False])
def test_an_odd_model_server_has_a_body(inference: dict[str, Any], vllm: bool):
    given = Given("odd", RESOURCE, inference=inference, options={"vllm": vllm})
    body = given.stateful_set()
    assert body["metadata"]["name"] == "phi"
    assert body["spec"]["template"]["metadata"]["labels"] == {"kaito.sh/workspace": "phi"}


ODD_TUNING: list[dict[str, Any]] = [
    {"input": {"volumeSource": {}}, "output": {"volumeSource": {"name": "other"}}},
    {"input": {"image": "UPPER.example/a"}, "output": {"volumeSource": {}}},
    {"method": "LoRA", "input": {"urls": ["https://example.com/a b"]}},
    {"preset": {"name": "mistral-7b"}, "config": "own"},
]


@pytest.mark.parametrize("tuning", ODD_TUNING)
def test_an_odd_tuning_has_a_body(tuning: dict[str, Any]):
    whole: dict[str, Any] = {
        "preset": {"name": "phi-4"},
        "method": "lora",
        "input": {"volumeSource": {}},
        "output": {"volumeSource": {}},
        **tuning,
    }
    job = Given("odd", RESOURCE, tuning=whole).job()
    volumes = [each["name"] for each in job["spec"]["template"]["spec"]["volumes"]]
    assert {"results-volume", "data-volume"} <= set(volumes)


@pytest.mark.parametrize("name", list(golden_names()))
def test_a_workspace_creates_what_its_golden_file_says(name: str):
    given, expected = read_golden(name)
    made = given.bodies()
    assert {kind: abridged(made[kind]) for kind in expected} == expected


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
