"""Names of the objects that a RayService creates, in KubeRay's forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta

_SERVE_SERVICE: Final = "-serve-svc"


def serve_service_name(service: ObjectMeta) -> str:
    """Return the name of the stable service of the applications; the user may choose it."""
    return f"{service.name}{_SERVE_SERVICE}"


def cluster_serve_service_name(cluster: str) -> str:
    """Return the name of the service of one cluster's applications, for routes."""
    return f"{cluster}{_SERVE_SERVICE}"


def cluster_behind(service: str) -> str:
    """Return the cluster whose service has this name; inverts `cluster_serve_service_name`."""
    return service.removesuffix(_SERVE_SERVICE)


def gateway_name(service: ObjectMeta) -> str:
    """Return the name of the Gateway that divides requests in an incremental upgrade."""
    return f"{service.name}-gateway"


def route_name(service: ObjectMeta) -> str:
    """Return the name of its HTTPRoute."""
    return f"{service.name}-httproute"
