"""The pods that are built for a manifest, with what differs from run to run masked."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.raycluster import RayCluster
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import DesiredCluster
from controller.ray.pods import ReplicaPosition
from controller.ray.settings import RaySettings

SETTINGS = RaySettings(
    version="manta-test", feature_gates=FeatureGates.parse("RayClusterMTLS=true")
)
DEFAULTED = {"replicas": 0, "minReplicas": 0, "maxReplicas": 2**31 - 1, "numOfHosts": 1}
"""What the API server fills in for a worker group."""

_HASHES = (
    "manta.dev/cluster-options",
    "manta.dev/pod-template-hash",
    "ray.io/upgrade-strategy-recreate-hash",
)
_ADDRESS = re.compile(r"ray health-check --address (\S+?);? ")


def built_pods(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The head pod, and of each worker group one pod: host 0 of replica 0."""
    raw = copy.deepcopy(raw)
    raw["metadata"] |= {"namespace": "default", "uid": f"uid-of-{raw['metadata']['name']}"}
    groups = raw["spec"].get("workerGroupSpecs", [])
    raw["spec"]["workerGroupSpecs"] = [DEFAULTED | group for group in groups]
    design = RayClusterKind(SETTINGS)._desired(msgspec.convert(raw, RayCluster))
    assert isinstance(design, DesiredCluster), design
    yield _masked(design.builder.head("NAME"))
    for group in design.spec.worker_group_specs:
        place = ReplicaPosition(0, f"{group.group_name}-REPLICA" if group.hosts > 1 else "")
        yield _masked(design.builder.workers(group)("NAME", place))


def _masked(pod: dict[str, Any]) -> dict[str, Any]:
    pod = copy.deepcopy(pod)
    for key in _HASHES:
        if key in pod["metadata"]["annotations"]:
            pod["metadata"]["annotations"][key] = "HASH"
    for container in pod["spec"].get("initContainers", ()):
        if container["name"] == "wait-gcs-ready":
            found = set(_ADDRESS.findall("".join(container.get("args", ()))))
            container["args"] = [f"WAIT {address}" for address in found]
    return pod
