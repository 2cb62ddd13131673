"""What a controller of the Gateway API reports, and what its definitions keep."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from controller.kube.client import Client
from controller.kube.errors import Invalid
from controller.kube.objects import Gateway, HTTPRoute, Service
from controller.kube.resources import CRDS, GATEWAYS
from controller.testing.cluster import embedded_server
from devcluster.gateway import (
    GatewayClass,
    Listening,
    attached_routes,
    class_status,
    gateway_api_definitions,
    gateway_status,
    route_parents,
)
from devcluster.karpenter import node_claim_definition

NOW, EARLIER = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"


def gateway(**status: Any) -> Gateway:
    body = {
        "metadata": {"name": "gw", "namespace": "default", "generation": 3},
        "spec": {"listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]},
        "status": status,
    }
    return msgspec.convert(body, Gateway)


def route(*parents: dict[str, Any], backend: str = "old", **more: Any) -> HTTPRoute:
    body = {
        "metadata": {"name": "r", "namespace": "default", "generation": 5},
        "spec": {
            "parentRefs": list(parents or ({"name": "gw"},)),
            "rules": [{"backendRefs": [{"name": backend, "port": 8000}]}],
        },
        **more,
    }
    return msgspec.convert(body, HTTPRoute)


def service_of(key: str) -> Service | None:
    if key != "default/old":
        return None
    return msgspec.convert({"spec": {"ports": [{"port": 8000}]}}, Service)


def brief(status: dict[str, Any]) -> dict[str, tuple[str, str, int]]:
    return {
        each["type"]: (each["status"], each["reason"], each["observedGeneration"])
        for each in status["conditions"]
    }


def test_a_class_is_accepted_and_keeps_the_time_of_it():
    condition = {"type": "Accepted", "status": "True", "lastTransitionTime": EARLIER}
    body = {"metadata": {"generation": 2}, "status": {"conditions": [condition]}}
    found = class_status(msgspec.convert(body, GatewayClass), NOW)
    assert brief(found) == {"Accepted": ("True", "Accepted", 2)}
    assert found["conditions"][0]["lastTransitionTime"] == EARLIER


def test_a_gateway_is_programmed_where_it_is_listened_for():
    found = gateway_status(gateway(), [route()], Listening(("10.0.0.1",)), NOW)
    assert brief(found) == {
        "Accepted": ("True", "Accepted", 3),
        "Programmed": ("True", "Programmed", 3),
    }
    assert found["addresses"] == [{"type": "IPAddress", "value": "10.0.0.1"}]
    assert found["listeners"][0]["attachedRoutes"] == 1


def test_a_gateway_without_an_address_is_not_programmed():
    assert brief(gateway_status(gateway(), [], Listening(), NOW))["Programmed"] == (
        "False",
        "AddressNotAssigned",
        3,
    )
    refused = gateway_status(gateway(), [], Listening(problem="in use"), NOW)
    assert refused["conditions"][1]["message"] == "in use"


def test_a_route_is_accepted_by_our_gateways_only():
    own, foreign = {"name": "gw"}, {"name": "other"}
    [parent] = route_parents(route(own, foreign), {"default/gw": gateway()}, service_of, "me", NOW)
    assert parent["parentRef"] == own
    assert brief(parent) == {
        "Accepted": ("True", "Accepted", 5),
        "ResolvedRefs": ("True", "ResolvedRefs", 5),
    }


def test_a_backend_that_does_not_exist_is_named():
    found = route(backend="lost")
    [parent] = route_parents(found, {"default/gw": gateway()}, service_of, "me", NOW)
    assert brief(parent)["ResolvedRefs"] == ("False", "BackendNotFound", 5)
    assert "default/lost" in parent["conditions"][1]["message"]


def test_a_listener_that_does_not_exist_is_no_parent():
    found = route({"name": "gw", "sectionName": "https"})
    [parent] = route_parents(found, {"default/gw": gateway()}, service_of, "me", NOW)
    assert brief(parent)["Accepted"] == ("False", "NoMatchingParent", 5)


def test_older_routes_come_first():
    older = route(metadata={"name": "z", "namespace": "default", "creationTimestamp": EARLIER})
    newer = route(metadata={"name": "a", "namespace": "default", "creationTimestamp": NOW})
    assert attached_routes(gateway(), [newer, older]) == [older, newer]
    assert attached_routes(gateway(), [route({"name": "other"})]) == []


TIME = "2026-01-01T00:00:00Z"
GATEWAY = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "Gateway",
    "metadata": {"name": "gw"},
    "spec": {
        "gatewayClassName": "istio",
        "infrastructure": {"annotations": {"a": "b"}},
        "listeners": [
            {
                "name": "https",
                "port": 443,
                "protocol": "HTTPS",
                "hostname": "*.example.net",
                "tls": {"mode": "Terminate", "certificateRefs": [{"name": "cert"}]},
                "allowedRoutes": {"namespaces": {"from": "All"}},
            },
            {"name": "http", "port": 80, "protocol": "HTTP"},
        ],
    },
}


@pytest.fixture
async def user():
    async with embedded_server() as server:
        user = Client(server, user_agent="user", clock=asyncio.get_running_loop())
        for definition in gateway_api_definitions():
            await user.create(CRDS, "", definition)
        await asyncio.sleep(2)
        yield user


async def test_what_users_write_is_kept_and_completed(user: Client):
    await user.create(GATEWAYS, "default", GATEWAY)
    found = await user.get_raw(GATEWAYS, "default", "gw")
    listeners = found["spec"]["listeners"]
    assert listeners[0] == GATEWAY["spec"]["listeners"][0]
    assert listeners[1]["allowedRoutes"] == {"namespaces": {"from": "Same"}}
    assert found["spec"]["infrastructure"] == {"annotations": {"a": "b"}}


async def test_a_gateway_without_listeners_is_refused(user: Client):
    body = {**GATEWAY, "spec": {"gatewayClassName": "istio", "listeners": []}}
    with pytest.raises(Invalid):
        await user.create(GATEWAYS, "default", body)


@pytest.mark.parametrize("status", [{"status": "Yes"}, {"reason": ""}], ids=str)
async def test_a_condition_that_no_cluster_would_take_is_refused(
    user: Client, status: dict[str, str]
):
    await user.create(GATEWAYS, "default", GATEWAY)
    good = {"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": TIME}
    await user.merge_patch(
        GATEWAYS, "default", "gw", {"status": {"conditions": [good]}}, subresource="status"
    )
    body = {"status": {"conditions": [good | status]}}
    with pytest.raises(Invalid):
        await user.merge_patch(GATEWAYS, "default", "gw", body, subresource="status")


def test_node_claims_have_the_conditions_of_gateways():
    [version] = node_claim_definition()["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    gateways = gateway_api_definitions()[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert status["conditions"] == gateways["properties"]["status"]["properties"]["conditions"]
    assert status["conditions"]["items"]["required"]
