"""CustomResourceDefinitions of the Gateway API: GatewayClass, Gateway and HTTPRoute.

Fields that users write are kept, and have the defaults of the Gateway API's standard channel. Parts
that no component here reads, such as filters, are kept unchecked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.core_schemas import conditions
from controller.apimachinery.schema import (
    anything,
    array,
    int32,
    map_of,
    string,
    struct,
    words,
)
from controller.kube.objects import Condition, Gateway, HTTPRoute, KubeObject, View
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.apimachinery.schema import Schema


GROUP: Final = "gateway.networking.k8s.io"
_NEVER: Final = "1970-01-01T00:00:00Z"
_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")


def gateway_api_definitions() -> list[dict[str, Any]]:
    """Return all three, as plain data ready to be created."""
    return [
        _definition(
            "GatewayClass",
            "gatewayclasses",
            _class_schema(),
            [
                ("Controller", "string", ".spec.controllerName"),
                ("Accepted", "string", '.status.conditions[?(@.type=="Accepted")].status'),
                _AGE,
            ],
            short="gc",
            scope="Cluster",
        ),
        _definition(
            "Gateway",
            "gateways",
            _gateway_schema(),
            [
                ("Class", "string", ".spec.gatewayClassName"),
                ("Address", "string", ".status.addresses[*].value"),
                ("Programmed", "string", '.status.conditions[?(@.type=="Programmed")].status'),
                _AGE,
            ],
            short="gtw",
        ),
        _definition(
            "HTTPRoute",
            "httproutes",
            _route_schema(),
            [("Hostnames", "string", ".spec.hostnames"), _AGE],
        ),
    ]


def _class_schema() -> Schema:
    spec = struct(
        "Who handles Gateways of this class.",
        {
            "controllerName": string("Name of the controller, `example.net/name`.", minLength=1),
            "description": string("For people.", maxLength=64),
            "parametersRef": anything("An object with settings of the controller."),
        },
        required=["controllerName"],
    )
    status = struct(
        "What the controller reports.",
        {"conditions": conditions("the class"), "supportedFeatures": array("", anything(""))},
    )
    status["default"] = {"conditions": [_waiting("Accepted")]}
    return _object("GatewayClass", spec, status)


def _gateway_schema() -> Schema:
    listener = struct(
        "One port on which requests arrive.",
        {
            "name": string("Unique within the Gateway.", minLength=1, maxLength=253),
            "hostname": string("Host names of the requests; all if it is left out."),
            "port": _port("The port."),
            "protocol": string("HTTP, HTTPS, TLS, TCP or UDP.", minLength=1, maxLength=255),
            "tls": anything("Certificates."),
            "allowedRoutes": anything("Which routes may attach.")
            | {"default": {"namespaces": {"from": "Same"}}},
        },
        required=["name", "port", "protocol"],
    )
    spec = struct(
        "Where requests arrive.",
        {
            "gatewayClassName": string("Name of the GatewayClass.", minLength=1, maxLength=253),
            "listeners": array("The ports.", listener, keys=["name"])
            | {"minItems": 1, "maxItems": 64},
            "addresses": array("Wanted addresses.", anything("One address.")),
            "infrastructure": anything("Labels and annotations of what the controller makes."),
        },
        required=["gatewayClassName", "listeners"],
    )
    address = struct(
        "One address.",
        {
            "type": string("IPAddress or Hostname.") | {"default": "IPAddress"},
            "value": string("The address.", minLength=1, maxLength=253),
        },
        required=["value"],
    )
    listener_status = struct(
        "What is known about one listener.",
        {
            "name": string("Its name."),
            "attachedRoutes": int32("Number of routes that have attached."),
            "supportedKinds": array("Kinds of routes.", anything("One kind.")),
            "conditions": conditions("the listener"),
        },
        required=["attachedRoutes", "conditions", "name"],
    )
    status = struct(
        "What the controller reports.",
        {
            "addresses": array("Where requests arrive.", address),
            "conditions": conditions("the Gateway"),
            "listeners": array("Its listeners.", listener_status, keys=["name"]),
        },
    )
    status["default"] = {"conditions": [_waiting("Accepted"), _waiting("Programmed")]}
    return _object("Gateway", spec, status)


def _route_schema() -> Schema:
    parent = struct(
        "A Gateway.",
        {
            "group": string("API group.") | {"default": GROUP},
            "kind": string("Kind.") | {"default": "Gateway"},
            "namespace": string("Namespace; the route's if it is left out."),
            "name": string("Name.", minLength=1, maxLength=253),
            "sectionName": string("Name of a listener; all if it is left out."),
            "port": _port("Port of the listeners; all if it is left out."),
        },
        required=["name"],
    )
    everything: dict[str, Any] = {"path": {"type": "PathPrefix", "value": "/"}}
    rule = struct(
        "What is done with some requests.",
        {
            "name": string("Unique within the route."),
            "matches": array("The requests; one of these must match.", _match())
            | {"default": [everything]},
            "filters": array("Changes of the requests.", anything("One filter.")),
            "backendRefs": array("Where they go to.", _backend()),
            "timeouts": map_of("Limits of time.", {"type": "string"}),
            "retry": anything("When a request is repeated."),
            "sessionPersistence": anything("Whether a client keeps its backend."),
        },
    )
    spec = struct(
        "Which requests go where.",
        {
            "hostnames": words("Host names of the requests; all if there are none."),
            "parentRefs": array("The Gateways whose requests these are.", parent),
            "rules": array("The first that matches applies.", rule)
            | {"default": [{"matches": [everything]}]},
        },
    )
    reported = struct(
        "What the controller of one parent reports.",
        {
            "parentRef": parent,
            "controllerName": string("Name of the controller.", minLength=1, maxLength=253),
            "conditions": conditions("the route"),
        },
        required=["controllerName", "parentRef"],
    )
    status = struct(
        "What the controllers report.",
        {"parents": array("One entry a parent.", reported)},
        required=["parents"],
    )
    return _object("HTTPRoute", spec, status)


def _match() -> Schema:
    path = struct(
        "The path.",
        {
            "type": string("How it is compared.", enum=["Exact", "PathPrefix", "RegularExpression"])
            | {"default": "PathPrefix"},
            "value": string("What it is compared with.", maxLength=1024) | {"default": "/"},
        },
    )
    path["default"] = {"type": "PathPrefix", "value": "/"}
    named = array("All of these.", anything("Name and value."))
    return struct(
        "Conditions that hold together.",
        {
            "path": path,
            "headers": named,
            "queryParams": named,
            "method": string("The method; any if it is left out."),
        },
    )


def _backend() -> Schema:
    return struct(
        "A Service, and its share of the requests.",
        {
            "group": string("API group.") | {"default": ""},
            "kind": string("Kind.") | {"default": "Service"},
            "namespace": string("Namespace; the route's if it is left out."),
            "name": string("Name.", minLength=1, maxLength=253),
            "port": _port("Port of the Service."),
            "weight": int32("Share of the requests, in proportion to those of the others.")
            | {"default": 1, "minimum": 0, "maximum": 1_000_000},
            "filters": array("Changes of the requests.", anything("One filter.")),
        },
        required=["name"],
    )


def _port(description: str) -> Schema:
    return int32(description, minimum=1, maximum=65535)


def _waiting(condition: str) -> dict[str, Any]:
    return {
        "type": condition,
        "status": "Unknown",
        "reason": "Pending",
        "message": "Waiting for controller",
        "lastTransitionTime": _NEVER,
    }


def _object(kind: str, spec: Schema, status: Schema) -> Schema:
    return struct(
        f"A {kind} of the Gateway API.",
        {
            "apiVersion": string("Version of the schema of this object."),
            "kind": string(f"{kind}."),
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        required=["spec"],
    )


def _definition(
    kind: str,
    plural: str,
    schema: Schema,
    columns: Sequence[tuple[str, str, str]],
    *,
    short: str = "",
    scope: str = "Namespaced",
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {
                "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api"
            },
        },
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "categories": ["gateway-api"],
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                **({"shortNames": [short]} if short else {}),
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {"name": name, "type": type_, "jsonPath": path}
                        for name, type_, path in columns
                    ],
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


# Views of the Gateway API that its controllers need.


__all__ = ["GATEWAYS", "GATEWAY_CLASSES", "HTTP_ROUTES", "Gateway", "GatewayClass", "HTTPRoute"]


class GatewayClassSpec(View, frozen=True):
    """`spec` of a GatewayClass."""

    controller_name: str = ""


class GatewayClassStatus(View, frozen=True):
    """`status` of a GatewayClass."""

    conditions: tuple[Condition, ...] = ()


class GatewayClass(KubeObject, frozen=True):
    """A GatewayClass, which names the controller of its Gateways."""

    spec: GatewayClassSpec = GatewayClassSpec()
    status: GatewayClassStatus = GatewayClassStatus()


GATEWAY_CLASSES: Resource[Any] = Resource(
    GROUP, "v1", "gatewayclasses", "GatewayClass", GatewayClass, namespaced=False
)
