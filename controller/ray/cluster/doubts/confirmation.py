"""A user's confirmation of unexplained deletions (`held_deletions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.kubectl import overwrite_command
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.pods.hashes.template_hash import digest

if TYPE_CHECKING:
    from controller.ray.api.raycluster import RayCluster

_LENGTH: Final = 8


def is_confirmed(cluster: RayCluster) -> bool:
    """Return whether a user has confirmed the deletions of the present specification."""
    confirmed = (cluster.metadata.annotations or {}).get(labels.CONFIRM_DELETION)
    return confirmed is not None and confirmed == confirmation_of(cluster)


def confirming_command(cluster: RayCluster) -> str:
    """Return the command with which a user confirms them."""
    values = {labels.CONFIRM_DELETION: confirmation_of(cluster)}
    return overwrite_command("annotate", RAYCLUSTERS.kind, cluster.metadata, values)


def confirmation_of(cluster: RayCluster) -> str:
    """Return the value that confirms the deletions of this specification and of no other."""
    _, _, found = digest(cluster.spec).partition("-")
    return f"{cluster.metadata.generation}-{found[:_LENGTH].lower()}"
