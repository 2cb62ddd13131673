"""Custom kinds in generated requests: RayClusters as Manta defines them, and the tests' Things."""

from __future__ import annotations

from controller.ray.api import custom_resource_definitions
from tests.devcluster.apiserver.definitions import definition
from tests.devcluster.fidelity.kinds import Kind, containers

GROUP = "fidelity.example.org"
DEFINITIONS = (
    definition(GROUP),
    next(
        one
        for one in custom_resource_definitions()
        if one["metadata"]["name"] == "rayclusters.ray.io"
    ),
)

TEMPLATE = {"spec": {"containers": containers("ray-head", image="rayproject/ray:2.46.0")}}
GROUPS = [
    {
        "groupName": "small",
        "replicas": 1,
        "minReplicas": 0,
        "maxReplicas": 3,
        "rayStartParams": {},
        "template": {"spec": {"containers": containers("ray-worker")}},
    }
]

RAY_CLUSTERS = Kind(
    "ray.io/v1",
    "RayCluster",
    "rayclusters",
    valid=(
        {"spec": {"headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE}}},
        {
            "spec": {
                "headGroupSpec": {"rayStartParams": {"a": "b"}, "template": TEMPLATE},
                "workerGroupSpecs": GROUPS,
            }
        },
        {
            "spec": {
                "suspend": True,
                "headGroupSpec": {"template": TEMPLATE},
                "workerGroupSpecs": GROUPS,
            }
        },
    ),
    changes=(
        {"spec": {"suspend": True}},
        {"spec": {"suspend": None}},
        {"spec": {"workerGroupSpecs": GROUPS}},
        {"spec": {"workerGroupSpecs": [GROUPS[0] | {"replicas": 2}]}},
        {"spec": {"headGroupSpec": {"rayStartParams": {"num-cpus": "0"}}}},
        {"spec": {"rayVersion": "2.46.0"}},
        {"metadata": {"annotations": {"a": "b"}}},
    ),
    mistakes=(
        {"spec": None},
        {"spec": {}},
        {"spec": {"headGroupSpec": None}},
        {"spec": {"headGroupSpec": {"template": None}}},
        {"spec": {"suspend": "yes"}},
        {"spec": {"workerGroupSpecs": {}}},
        {"spec": {"workerGroupSpecs": [{}]}},
        {"spec": {"workerGroupSpecs": [GROUPS[0] | {"replicas": "1"}]}},
        {"spec": {"workerGroupSpecs": [GROUPS[0] | {"replicas": 1.5}]}},
        {"spec": {"unknown": 1}},
        {"spec": {"headGroupSpec": {"unknown": {"deep": 1}}}},
        {"spec": {"rayVersion": 2.4}},
    ),
    status=(
        {"state": "ready", "readyWorkerReplicas": 1},
        {"state": 1},
        {"unknown": 1},
        {"desiredCPU": "1", "observedGeneration": 1},
        {"readyWorkerReplicas": "1"},
    ),
    json_patches=(
        [{"op": "add", "path": "/spec/suspend", "value": True}],
        [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}],
        [{"op": "add", "path": "/spec/unknown", "value": True}],
        [{"op": "remove", "path": "/spec/headGroupSpec"}],
    ),
)

THINGS = Kind(
    f"{GROUP}/v1",
    "Thing",
    "things",
    valid=(
        {"spec": {"size": 1}},
        {"spec": {"size": 2, "mode": "b", "word": "abc", "this": "x"}},
        {"spec": {"size": 3, "port": "http", "free": {"x": {"y": 1}}, "labels": {"a": "b"}}},
        {"spec": {"size": 3, "set": ["a", "b"], "map": [{"name": "a"}, {"name": "b", "value": 1}]}},
        {"spec": {"size": 0, "immutable": "once", "choice": "x", "maybe": None, "list": ["a"]}},
        {"spec": {"size": 0, "when": "2026-01-01T00:00:00Z", "nested": {}}},
    ),
    changes=(
        {"spec": {"size": 4}},
        {"spec": {"mode": None}},
        {"spec": {"immutable": "twice"}},
        {"spec": {"set": ["b", "c"]}},
        {"spec": {"map": [{"name": "c", "value": 3}]}},
        {"spec": {"free": {"x": None, "z": [1, 2]}}},
        {"spec": {"nested": {"inner": "x"}}},
        {"spec": {"labels": {"a": None, "c": "d"}}},
    ),
    mistakes=(
        {"spec": None},
        {"spec": {"size": None}},
        {"spec": {"size": 11}},
        {"spec": {"size": -1}},
        {"spec": {"size": "1"}},
        {"spec": {"size": 1.5}},
        {"spec": {"size": True}},
        {"spec": {"mode": "c"}},
        {"spec": {"mode": 1}},
        {"spec": {"word": "a"}},
        {"spec": {"word": "abcdef"}},
        {"spec": {"word": "AB"}},
        {"spec": {"this": "x", "that": "y"}},
        {"spec": {"choice": "z"}},
        {"spec": {"port": 1.5}},
        {"spec": {"port": True}},
        {"spec": {"labels": {"a": 1}}},
        {"spec": {"labels": ["a"]}},
        {"spec": {"when": "yesterday"}},
        {"spec": {"flag": "true"}},
        {"spec": {"list": []}},
        {"spec": {"list": ["a", "b", "c", "d"]}},
        {"spec": {"list": "a"}},
        {"spec": {"set": ["a", "a"]}},
        {"spec": {"map": [{"name": "a"}, {"name": "a"}]}},
        {"spec": {"map": [{"value": 1}]}},
        {"spec": {"unknown": 1, "other": 2}},
        {"spec": {"nested": {"unknown": 1}}},
        {"spec": "text"},
        {"status": {"phase": "x"}},
    ),
    status=({"phase": "Ready"}, {"phase": 1}, {"unknown": 1}, {"conditions": [{"type": "A"}]}),
    fields=("spec.size=1",),
    json_patches=(
        [{"op": "replace", "path": "/spec/size", "value": 5}],
        [{"op": "replace", "path": "/spec/size", "value": "5"}],
        [{"op": "add", "path": "/spec/set/-", "value": "a"}],
        [{"op": "add", "path": "/spec/unknown", "value": "a"}],
        [{"op": "remove", "path": "/spec/size"}],
    ),
)
