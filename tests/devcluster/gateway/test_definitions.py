"""The definitions of the Gateway API: fields that users write are kept, and have their defaults."""

from __future__ import annotations

import asyncio

import pytest

from controller.devcluster.gateway_api import gateway_api_definitions
from controller.devcluster.karpenter import node_claim_definition
from controller.kube.client import Client
from controller.kube.errors import Invalid
from controller.kube.resources import CRDS, GATEWAYS, HTTP_ROUTES
from controller.testing.cluster import embedded_server

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
ROUTE = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "HTTPRoute",
    "metadata": {"name": "r"},
    "spec": {
        "parentRefs": [{"name": "gw", "sectionName": "http"}],
        "hostnames": ["a.example.net"],
        "rules": [
            {
                "matches": [{"headers": [{"name": "x", "value": "y"}], "method": "GET"}],
                "filters": [{"type": "RequestMirror", "requestMirror": {"percent": 5}}],
                "timeouts": {"request": "10s"},
                "backendRefs": [{"name": "old", "port": 8000}],
            }
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


async def test_routes_keep_filters_and_get_the_default_weight_and_path(user: Client):
    await user.create(HTTP_ROUTES, "default", ROUTE)
    [rule] = (await user.get_raw(HTTP_ROUTES, "default", "r"))["spec"]["rules"]
    written = ROUTE["spec"]["rules"][0]
    assert rule["filters"] == written["filters"]
    assert rule["timeouts"] == written["timeouts"]
    assert rule["matches"][0]["path"] == {"type": "PathPrefix", "value": "/"}
    assert rule["matches"][0]["headers"] == written["matches"][0]["headers"]
    assert rule["backendRefs"] == [
        {"group": "", "kind": "Service", "name": "old", "port": 8000, "weight": 1}
    ]


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
