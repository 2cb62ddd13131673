"""How requests are divided, and whether a gateway divides them by the stored weights."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import KubeObject
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, Resource
from controller.ray.api import RayCluster
from controller.ray.api.labels import DELETE_AFTER
from controller.ray.service.facts import collect_facts, seconds_to_next_shift
from controller.ray.service.rollout import RolloutWait, next_step
from controller.ray.service.services import backend, route
from controller.ray.service.traffic import (
    routed_clusters,
    routing_problem,
)
from controller.runtime.plan import Create, Delete, MergePatch, Replace
from tests.ray.cluster.support import NOW
from tests.ray.service.scenes import (
    ACTIVE,
    NEW,
    OLD,
    PENDING,
    STEPWISE,
    Scene,
    edition,
    gateway_in_force,
    route_in_force,
)

PAST = rfc3339(NOW - timedelta(seconds=1))
SERVING = {"svc-aaaaa-serve-svc": 60, "svc-bbbbb-serve-svc": 40}


class Routed(Scene):
    """A scene half-way through an upgrade, with Gateway API objects to choose."""

    def __init__(self, *objects: tuple[Resource[Any], KubeObject | None], **pending: Any) -> None:
        super().__init__(edition(NEW, upgradeStrategy=STEPWISE), "UpgradeInProgress")
        self.objects = objects
        recorded = {"targetCapacity": 60, "trafficRoutedPercent": 60}
        self.has(ACTIVE, edition(OLD), **recorded)
        self.has(PENDING, edition(NEW), targetCapacity=60, trafficRoutedPercent=40, **pending)

    def gateway_objects(self) -> Iterator[tuple[Resource[Any], KubeObject | None]]:
        yield from self.objects


def in_force(**more: Any) -> Routed:
    return Routed((GATEWAYS, gateway_in_force()), (HTTP_ROUTES, route_in_force(SERVING)), **more)


def problem(gateway: Any, route: Any) -> str:
    return routing_problem(Routed((GATEWAYS, gateway), (HTTP_ROUTES, route)).observe())


@pytest.mark.parametrize(
    ("gateway", "said"),
    [
        ({"Accepted": "False"}, "Gateway svc-gateway is not Accepted: Because"),
        ({"Programmed": "False"}, "Gateway svc-gateway is not Programmed: Because"),
        ({"Programmed": "Unknown"}, "is there a controller for GatewayClass istio?"),
    ],
)
def test_a_gateway_that_is_not_programmed_is_not_in_force(gateway: dict[str, str], said: str):
    assert said in problem(gateway_in_force(**gateway), route_in_force(SERVING))


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ({"Accepted": "False"}, "HTTPRoute svc-httproute is not Accepted: Because"),
        ({"ResolvedRefs": "False"}, "HTTPRoute svc-httproute is not ResolvedRefs: Because"),
        ({"ResolvedRefs": "Unknown"}, "is not known to be ResolvedRefs"),
        ({"generation": 2}, "its controller has not seen the change yet"),
    ],
)
def test_a_route_that_is_not_accepted_is_not_in_force(route: dict[str, Any], said: str):
    assert said in problem(gateway_in_force(), route_in_force(SERVING, **route))


def test_the_repair_of_weights_keeps_what_the_server_has_filled_in():
    other = {"svc-aaaaa-serve-svc": 80, "svc-bbbbb-serve-svc": 20}
    plan = Routed((GATEWAYS, gateway_in_force()), (HTTP_ROUTES, route_in_force(other))).plan()
    [repair] = [each for each in plan.independent if each.target.resource is HTTP_ROUTES]
    assert isinstance(repair, Replace)
    [rule] = repair.merge["spec"]["rules"]
    assert {each["name"]: each["weight"] for each in rule["backendRefs"]} == SERVING


ODD_BACKENDS = [
    {"name": "svc-aaaaa-serve-svc", "weight": 60},
    None,
    7,
    [{"name": "svc-aaaaa-serve-svc"}],
    ["odd", None, {"name": ["odd"]}, {"name": None, "weight": {}}],
    [{"name": "svc-aaaaa-serve-svc", "weight": "odd"}],
]


def route_with(**spec: Any) -> Any:
    found = route_in_force(SERVING)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, **spec))


def repaired(found: Any) -> dict[str, Any]:
    """The specification of the route as the operator wants it, given the present one."""
    owner = Routed().observe().service.metadata
    backends = [backend(owner, name, 8000, weight) for name, weight in SERVING.items()]
    child = route(owner, backends)
    assert child.desired_fields is not None
    return child.desired_fields(child.body, found, {}).fields["spec"]


@pytest.mark.parametrize("backends", ODD_BACKENDS)
def test_odd_backends_of_a_route_are_repaired(backends: Any):
    odd = route_with(rules=({"backendRefs": backends},))
    scene = Routed((GATEWAYS, gateway_in_force()), (HTTP_ROUTES, odd))
    assert "other weights" in routing_problem(scene.observe())
    [rule] = repaired(odd)["rules"]
    assert {each["name"]: each["weight"] for each in rule["backendRefs"]} == SERVING


def test_a_cluster_counts_as_routed_to_whatever_its_weight():
    route = route_in_force({"svc-aaaaa-serve-svc": "odd"})
    seen = Routed((GATEWAYS, gateway_in_force()), (HTTP_ROUTES, route)).observe()
    assert routed_clusters(seen) == {"svc-aaaaa"}


@pytest.mark.parametrize("parent", [{}, {"name": ["odd"]}, {"name": "x", "namespace": ["odd"]}])
def test_odd_parents_of_a_route_are_kept_beside_the_gateway(parent: dict[str, Any]):
    gateway = {"name": "svc-gateway", "namespace": "default"}
    assert repaired(route_with(parent_refs=(parent,)))["parentRefs"] == [parent, gateway]


def test_a_route_leads_to_no_service_that_does_not_exist():
    plan = Routed((GATEWAYS, gateway_in_force()), (HTTP_ROUTES, None)).plan()
    created = [each.target.name for each in plan.independent if isinstance(each, Create)]
    assert "svc-httproute" not in created
    assert {"svc-aaaaa-serve-svc", "svc-bbbbb-serve-svc"} <= set(created)


@pytest.mark.parametrize(("ago", "left"), [(0.0, 1.0), (0.25, 0.75), (1.0, None), (-60.0, None)])
def test_the_interval_counts_from_the_last_change_of_the_weights(ago: float, left: float | None):
    moved = rfc3339(NOW - timedelta(seconds=int(ago)))
    seen = in_force(lastTrafficMigratedTime=moved).observe()
    moment = NOW + timedelta(seconds=ago - int(ago))
    assert seconds_to_next_shift(replace(seen, now=moment)) == left


def test_the_plan_wakes_when_the_interval_has_passed():
    scene = in_force(lastTrafficMigratedTime=rfc3339(NOW))
    assert next_step(collect_facts(scene.observe())) is RolloutWait.INTERVAL
    assert scene.plan().requeue_after == 1.0


def test_a_cluster_that_the_route_leads_to_is_not_deleted():
    scene = Routed(
        (GATEWAYS, gateway_in_force()), (HTTP_ROUTES, route_in_force({"svc-ccccc-serve-svc": 1}))
    )
    assert "svc-ccccc" in routed_clusters(scene.observe())


def test_a_route_no_longer_refers_to_the_service_of_a_deleted_cluster_without_requests():
    known = {"svc-aaaaa-serve-svc": 0, "svc-bbbbb-serve-svc": 100}
    scene = Routed((GATEWAYS, gateway_in_force()), (HTTP_ROUTES, route_in_force(known)))
    scene.status[PENDING]["trafficRoutedPercent"] = 100
    del scene.clusters[ACTIVE]
    [repair] = [each for each in scene.plan().independent if each.target.resource is HTTP_ROUTES]
    assert isinstance(repair, Replace)
    [rule] = repair.merge["spec"]["rules"]
    assert [each["name"] for each in rule["backendRefs"]] == ["svc-bbbbb-serve-svc"]


@pytest.mark.parametrize(("routed", "kept"), [("svc-ccccc", True), ("svc-aaaaa", False)])
def test_while_the_specification_is_invalid_no_cluster_is_deleted_that_the_route_leads_to(
    routed: str, kept: bool
):
    route = route_in_force({f"{routed}-serve-svc": 1})
    scene = Routed((GATEWAYS, gateway_in_force()), (HTTP_ROUTES, route))
    scene.wanted["spec"]["serveConfigV2"] = "applications: 1"
    seen = scene.observe(valid=False)
    body = {"metadata": {"name": "svc-ccccc", "uid": "c", "annotations": {DELETE_AFTER: PAST}}}
    replaced = msgspec.convert(body, RayCluster)
    plan = scene.kind.plan(replace(seen, others=(replaced,)), NOW)
    deleted = [each.target.name for each in plan.independent if isinstance(each, Delete)]
    assert deleted == ([] if kept else ["svc-ccccc"])


@pytest.mark.parametrize(("hours", "written"), [(0, False), (10, True)])
def test_a_deletion_is_not_put_off_by_a_clock_that_has_gone_back(hours: int, written: bool):
    scene = Routed()
    due = rfc3339(NOW + timedelta(hours=hours, seconds=30))
    body = {"metadata": {"name": "svc-ccccc", "uid": "c", "annotations": {DELETE_AFTER: due}}}
    seen = replace(scene.observe(), others=(msgspec.convert(body, RayCluster),))
    stamps = [
        each.patch["metadata"]["annotations"][DELETE_AFTER]
        for each in scene.kind.plan(seen, NOW).independent
        if isinstance(each, MergePatch) and each.target.name == "svc-ccccc"
    ]
    assert stamps == ([rfc3339(NOW + timedelta(seconds=60))] if written else [])
