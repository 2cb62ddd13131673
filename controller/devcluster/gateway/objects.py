"""Views of the Gateway API that its controllers need."""

from __future__ import annotations

from typing import Any

from controller.devcluster.gateway.definitions import GROUP
from controller.kube.objects import Condition, Gateway, HTTPRoute, KubeObject, View
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, Resource

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
