"""The readiness of a model server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.kube.objects import StatefulSet


def serves(server: StatefulSet | None) -> bool:
    """Return whether all pods of a model server are ready."""
    if server is None:
        return False
    wanted = 1 if server.spec.replicas is None else server.spec.replicas
    return server.status.ready_replicas == wanted > 0
