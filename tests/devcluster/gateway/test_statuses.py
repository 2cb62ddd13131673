"""What a controller of the Gateway API reports."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.devcluster.gateway_api import (
    GatewayClass,
    Listening,
    attached_routes,
    class_status,
    gateway_status,
    route_parents,
)
from controller.kube.objects import Gateway, HTTPRoute, Service

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
