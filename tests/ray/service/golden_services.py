"""Everything that is created for the RayService of a manifest, as plain documents."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

from controller.apimachinery.validation import Problem
from controller.kube.objects import Service
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, SERVICES
from controller.ray.api import RAYCLUSTERS, RayCluster, RayService
from controller.ray.api import labels as keys
from controller.ray.api.raycluster import parse_spec
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.service.clusters import cluster_body
from controller.ray.service.identity import load
from controller.ray.service.kind import RayServiceKind
from controller.ray.service.observation import ACTIVE, PENDING, read_goal
from controller.ray.service.services import stable_services
from controller.ray.settings import RaySettings
from controller.testing.reads import FakeReads
from tests.ray.pods.golden_pods import DEFAULTED, built_pods

SUFFIX, OLD_SUFFIX = "-bcdfg", "-zzzzz"
SETTINGS = RaySettings(version="manta-test")
_MASKED = (keys.MADE_FROM, keys.SPEC_HASH, keys.SERVE_CONFIG_HASH)


def created_for(raw: dict[str, Any], *, second: bool = False) -> Iterator[dict[str, Any]]:
    """The RayCluster, the services, Gateway and route, the head, and one worker of each group.

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
    for child in stable_services(
        service, goal.spec, cluster, parse_spec(cluster), (), settings=SETTINGS
    ):
        yield _unrecorded(child.body)
    yield from map(_unrecorded, _routing(service, body, second=second))
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


def _routing(service: RayService, body: dict[str, Any], *, second: bool) -> Iterator[Any]:
    """What divides the requests, if the RayService asks for it."""
    name = service.metadata.name
    active: dict[str, Any] = {"rayClusterName": name + (OLD_SUFFIX if second else SUFFIX)}
    status = {ACTIVE: active}
    if second:
        shares = {"targetCapacity": 0, "trafficRoutedPercent": 0}
        status = {ACTIVE: active | dict.fromkeys(shares, 100)}
        status |= {PENDING: {"rayClusterName": name + SUFFIX, **shares}}
    kind = RayServiceKind(SETTINGS)
    reads = FakeReads(kind, served={GATEWAYS, HTTP_ROUTES})
    reads.add(RAYSERVICES, msgspec.structs.replace(service, status=status))
    for each in status.values():
        meta = body["metadata"] | {"name": each["rayClusterName"]}
        meta["uid"] = f"uid-of-{meta['name']}"
        reads.add(RAYCLUSTERS, msgspec.convert(body | {"metadata": meta}, RayCluster))
    bodies: list[Any] = []
    for _ in range(2):  # the route leads to services that exist
        seen = kind.observe(f"default/{name}", reads)
        assert seen is not None
        bodies = [child.body for child, _ in seen.routing.children]
        of_clusters = [each for each in bodies if each["kind"] == "Service"]
        reads.add(SERVICES, *(msgspec.convert(each, Service) for each in of_clusters))
    yield from bodies


def _masked(cluster: dict[str, Any]) -> dict[str, Any]:
    """The cluster with its stored config readable, and without digests."""
    cluster = copy.deepcopy(cluster)
    annotations = cluster["metadata"]["annotations"]
    config = load(annotations)
    assert config is not None
    del annotations[keys.INHERITED]
    annotations |= dict.fromkeys(_MASKED, "HASH") | {keys.SERVE_CONFIG: config.body}
    return cluster


def _unrecorded(body: Any) -> dict[str, Any]:
    """A child without the annotation by which its own fields are known."""
    child = copy.deepcopy(body)
    annotations = child["metadata"].pop("annotations", {})
    annotations.pop(keys.OWNED_FIELDS, None)
    if annotations:
        child["metadata"]["annotations"] = annotations
    return child
