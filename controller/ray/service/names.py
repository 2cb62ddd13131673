"""Names of what a RayService creates, in KubeRay's forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta

_SERVE_SERVICE: Final = "-serve-svc"


def serve_service_name(service: ObjectMeta) -> str:
    """Name of the stable service of the applications, unless the user chooses one."""
    return f"{service.name}{_SERVE_SERVICE}"


def cluster_serve_service_name(cluster: str) -> str:
    """Name of the service of the applications of one cluster, which a route leads to."""
    return f"{cluster}{_SERVE_SERVICE}"


def cluster_behind(service: str) -> str:
    """The cluster whose service has this name; the inverse of `cluster_serve_service_name`."""
    return service.removesuffix(_SERVE_SERVICE)


def gateway_name(service: ObjectMeta) -> str:
    """Name of the Gateway that divides the requests during an incremental upgrade."""
    return f"{service.name}-gateway"


def route_name(service: ObjectMeta) -> str:
    """Name of its HTTPRoute."""
    return f"{service.name}-httproute"
