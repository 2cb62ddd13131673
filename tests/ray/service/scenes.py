"""A RayService somewhere in an upgrade, its clusters with their heads, and what Ray says."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from controller.apimachinery.custom_object import mapping, status_of
from controller.apimachinery.validation import Problem
from controller.kube.objects import Gateway, HTTPRoute, KubeObject, Service
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, PODS, SERVICES, Resource
from controller.ray.api import FeatureGates, RayCluster, labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES, RayService
from controller.ray.dashboard import Head
from controller.ray.dashboard.commands import CommandOutcome
from controller.ray.dashboard.probes import Probe, ProbeObservation, ProxyProbe
from controller.ray.dashboard.serve import (
    ProxyHealth,
    ServeApplication,
    ServeDeployment,
    ServeState,
)
from controller.ray.service.clusters import cluster_body
from controller.ray.service.identity import load
from controller.ray.service.kind import RayServiceKind
from controller.ray.service.observation import (
    ACTIVE,
    PENDING,
    ServiceGoal,
    ServiceObservation,
    read_goal,
)
from controller.ray.settings import RaySettings
from controller.runtime.plan import Plan
from controller.testing.reads import FakeReads
from tests.integration.rayservices import serve_config, service_manifest, with_image
from tests.ray.cluster.support import NOW, head

UID = "uid-of-svc"
OLD, NEW, THIRD = "rayproject/ray:2.52.0", "rayproject/ray:2.53.0", "rayproject/ray:2.54.0"
SETTINGS = RaySettings(feature_gates=FeatureGates({"RayServiceIncrementalUpgrade": True}))
STEPWISE = {
    "type": "NewClusterWithIncrementalUpgrade",
    "clusterUpgradeOptions": {
        "maxSurgePercent": 20,
        "stepSizePercent": 20,
        "intervalSeconds": 1,
        "gatewayClassName": "istio",
    },
}


def edition(image: str, config: str = "", **spec: Any) -> dict[str, Any]:
    """A RayService with this image and Serve config, whose clusters are scaled by Ray."""
    config = config or serve_config(image.rpartition(":")[2])
    manifest = service_manifest(serveConfigV2=config, **spec)
    manifest["metadata"] |= {
        "namespace": "default",
        "uid": UID,
        "generation": 2,
        "resourceVersion": "7",
        "finalizers": [labels.RAYSERVICE_FINALIZER],
    }
    manifest["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = True
    return with_image(manifest, image)


class Scene:
    """One RayService at one moment. Every plan is that of an operator that has just started.

    Args:
        wanted: what the user wants.
        conditions: types of the conditions that are true.
    """

    def __init__(self, wanted: dict[str, Any], *conditions: str) -> None:
        self.wanted = wanted
        self.status: dict[str, Any] = {
            "conditions": [{"type": each, "status": "True", "reason": "x"} for each in conditions]
        }
        self.clusters: dict[str, RayCluster] = {}
        self.states: dict[str, ServeState] = {}
        self.services: list[Service] = []
        self.unready: set[str] = set()
        self._closing: CommandOutcome | None = None
        self.kind = RayServiceKind(SETTINGS, self)

    def selects(self, cluster: str) -> None:
        """Both stable services lead to this cluster."""
        for each in ("head", "serve"):
            body = {
                "metadata": _owned(f"svc-{each}-svc"),
                "spec": {"selector": {"ray.io/cluster": cluster}},
            }
            self.services.append(msgspec.convert(body, Service))

    def ends_with(self, outcome: CommandOutcome | None) -> None:
        """The proxies of every cluster were told to close their connections, with this outcome."""
        self._closing = outcome

    def has(
        self, role: str, made_of: dict[str, Any], *, ready: int = 100, **recorded: Any
    ) -> RayCluster:
        """Give it a cluster of this edition, which serves what is stored on it."""
        name = "svc-aaaaa" if role == ACTIVE else "svc-bbbbb"
        self.status[role] = {"rayClusterName": name} | recorded
        if made_of != self.wanted:
            made_of = made_of | {"metadata": made_of["metadata"] | {"generation": 1}}
        body = cluster_body(_service(made_of), _goal(made_of), name, from_least=False)
        body["metadata"] |= {"uid": f"uid-of-{name}", "resourceVersion": "5"}
        body["status"] = {"conditions": [{"type": "HeadPodReady", "status": "True"}]}
        cluster = self.clusters[role] = msgspec.convert(body, RayCluster)
        self.states[cluster.metadata.uid] = serving(cluster, ready, recorded.get("targetCapacity"))
        return cluster

    def observe(self, *, valid: bool = True) -> ServiceObservation:
        reads = FakeReads(self.kind).add(RAYSERVICES, _service(self.wanted, self.status))
        reads.add(RAYCLUSTERS, *self.clusters.values())
        for each in self.clusters.values():
            meta = each.metadata
            pod = head(
                f"{meta.name}-head-x",
                owner_uid=meta.uid,
                labels={"ray.io/cluster": meta.name, "ray.io/serve": "true"},
                ready=meta.name not in self.unready,
            )
            reads.add(PODS, pod)
        reads.add(SERVICES, *self.services)
        for resource, obj in self.gateway_objects():
            reads.add(resource, *(() if obj is None else (obj,)))
        found = self.kind.observe("default/svc", reads)
        assert found is not None
        assert valid is not isinstance(found.goal, Problem), found.goal
        return replace(found, now=NOW)

    def gateway_objects(self) -> Iterator[tuple[Resource[Any], KubeObject | None]]:
        """A Gateway, and a route that is in force with the stored weights."""
        status = status_of(_service(self.wanted, self.status))
        pending: int = mapping(status.get(PENDING)).get("trafficRoutedPercent", 0)
        stored = {ACTIVE: 100 - pending, PENDING: pending}
        weights = {
            f"{cluster.metadata.name}-serve-svc": stored[role]
            for role, cluster in self.clusters.items()
            if role in status
        }
        yield GATEWAYS, gateway_in_force()
        yield HTTP_ROUTES, route_in_force(weights)

    def plan(self) -> Plan:
        return self.kind.plan(self.observe(), NOW)

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """What the Serve of a cluster has answered; its proxies take requests."""
        if isinstance(probe, ProxyProbe):
            return ProbeObservation(ProxyHealth(healthy=True), NOW)
        state = self.states.get(head.cluster_uid)
        return None if state is None else ProbeObservation(state, NOW)

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        """The outcome of closing connections; no other command has ended yet."""
        return self._closing if command_id.startswith("close-") else None


def serving(cluster: RayCluster, ready: int, capacity: int | None) -> ServeState:
    """A Serve that has deployed what is stored, with `ready` percent of its replicas."""
    config = load(cluster.metadata.annotations)
    assert config is not None
    percent = 100 if capacity is None else capacity
    deployment = ServeDeployment("HEALTHY", target=percent, running=min(ready, percent))
    applications = {
        name: ServeApplication("RUNNING", "", {"Hello": deployment}, dict(found))
        for name, found in config.applications.items()
    }
    return ServeState(applications, capacity, {"10.0.0.7": "HEALTHY"})


def gateway_in_force(**status: str) -> Gateway:
    """The Gateway, with these statuses of its conditions."""
    body = {
        "metadata": _owned("svc-gateway"),
        "spec": {"gatewayClassName": "istio"},
        "status": {"conditions": _conditions({"Accepted": "True", "Programmed": "True"} | status)},
    }
    return msgspec.convert(body, Gateway)


def route_in_force(weights: dict[str, int], *, generation: int = 3, **status: str) -> HTTPRoute:
    """The route with these weights, with these statuses of its conditions.

    Args:
        weights: by Service.
        generation: that the conditions are about; the route's is 3.
        status: of the conditions.
    """
    backends = [{"name": name, "port": 8000, "weight": each} for name, each in weights.items()]
    found = {"Accepted": "True", "ResolvedRefs": "True"} | status
    parent = {"parentRef": {"name": "svc-gateway"}, "conditions": _conditions(found, generation)}
    body = {
        "metadata": _owned("svc-httproute"),
        "spec": {"parentRefs": [{"name": "svc-gateway"}], "rules": [{"backendRefs": backends}]},
        "status": {"parents": [parent]},
    }
    return msgspec.convert(body, HTTPRoute)


def _owned(name: str) -> dict[str, Any]:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "svc", "uid": UID}
    return {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "generation": 3,
        "resourceVersion": "6",
        "ownerReferences": [owner | {"controller": True}],
    }


def _conditions(statuses: dict[str, str], generation: int = 3) -> list[dict[str, Any]]:
    return [
        {"type": name, "status": status, "reason": "Because", "observedGeneration": generation}
        for name, status in statuses.items()
    ]


def _service(manifest: dict[str, Any], status: dict[str, Any] | None = None) -> RayService:
    return msgspec.convert(copy.deepcopy(manifest) | {"status": status or {}}, RayService)


def _goal(manifest: dict[str, Any]) -> ServiceGoal:
    goal = read_goal(_service(manifest), SETTINGS)
    assert not isinstance(goal, Problem), goal
    return goal


__all__ = ["ACTIVE", "NEW", "OLD", "PENDING", "STEPWISE", "THIRD", "Scene", "edition", "serving"]
