"""Names of what a RayService creates, in KubeRay's forms but computed instead of random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.names import suffix

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta

_SUFFIX_LENGTH: Final = 5
"""As in KubeRay; the limit on names of RayServices leaves room for no more."""


def cluster_name(service: ObjectMeta, moment: str) -> str:
    """Name of a RayCluster that is chosen at a revision of the RayService."""
    return f"{service.name}-{suffix(service.uid, 'cluster', moment)[:_SUFFIX_LENGTH]}"


def head_service_name(service: ObjectMeta) -> str:
    """Name of the stable service for the head of the cluster that serves."""
    return f"{service.name}-head-svc"


def serve_service_name(service: ObjectMeta) -> str:
    """Name of the stable service of the applications, unless the user chooses one."""
    return f"{service.name}-serve-svc"
