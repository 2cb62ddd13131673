"""Names of what a RayService creates, in KubeRay's forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta


def serve_service_name(service: ObjectMeta) -> str:
    """Name of the stable service of the applications, unless the user chooses one."""
    return f"{service.name}-serve-svc"
