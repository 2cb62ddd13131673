"""Everything that is created for the RayService of a manifest, as plain documents."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from controller.apimachinery.problem import Problem
from controller.ray.api import RayCluster, RayService
from controller.ray.api import labels as keys
from controller.ray.api.raycluster import parse_spec
from controller.ray.service.cluster.body import cluster_body
from controller.ray.service.goal import read_goal
from controller.ray.service.serving.stored_config import load
from controller.ray.service.settings import ServiceSettings
from controller.ray.service.traffic.services import stable_services
from tests.ray.pods.golden_pods import DEFAULTED, built_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = "-bcdfg"
SETTINGS = ServiceSettings(version="manta-test")
_MASKED = (keys.MADE_FROM, keys.SPEC_HASH, keys.SERVE_CONFIG_HASH)


def created_for(raw: dict[str, Any], *, second: bool = False) -> Iterator[dict[str, Any]]:
    """The RayCluster, the stable services, the head pod and one worker pod of each group.

    Args:
        raw: manifest of the RayService.
        second: whether the cluster is one that takes over step by step.
    """
    service = stored(raw)
    goal = read_goal(service, SETTINGS)
    assert not isinstance(goal, Problem), goal
    body = cluster_body(service, goal, service.metadata.name + SUFFIX, from_least=second)
    yield _masked(body)
    cluster = msgspec.convert(body, RayCluster)
    for child in stable_services(service, goal.spec, cluster, parse_spec(cluster), SETTINGS):
        yield _unrecorded(child.body)
    yield from built_pods(body)


def stored(raw: dict[str, Any]) -> RayService:
    """The RayService as the API server stores it."""
    raw = copy.deepcopy(raw)
    meta = raw["metadata"]
    meta |= {"namespace": "default", "uid": f"uid-of-{meta['name']}"}
    config = raw["spec"]["rayClusterConfig"]
    groups: list[dict[str, Any]] = config.get("workerGroupSpecs", [])
    config["workerGroupSpecs"] = [DEFAULTED | group for group in groups]
    return msgspec.convert(raw, RayService)


def _masked(cluster: dict[str, Any]) -> dict[str, Any]:
    """The cluster with its stored config readable, and without digests."""
    cluster = copy.deepcopy(cluster)
    annotations = cluster["metadata"]["annotations"]
    config = load(annotations)
    assert config is not None
    annotations |= dict.fromkeys(_MASKED, "HASH") | {keys.SERVE_CONFIG: config.body}
    return cluster


def _unrecorded(body: Any) -> dict[str, Any]:
    """A service without the annotation by which its own fields are known."""
    service = copy.deepcopy(body)
    annotations = service["metadata"]["annotations"]
    del annotations[keys.OWNED_FIELDS]
    if not annotations:
        del service["metadata"]["annotations"]
    return service
