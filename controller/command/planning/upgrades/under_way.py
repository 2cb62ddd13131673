"""The objects that an upgrade in progress removes, whatever is edited.

An operator that takes over continues such an upgrade, as the earlier one would have done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import is_true
from controller.apimachinery.custom_object import mapping
from controller.command.planning.snapshot import owner_uid

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

_ROLES: Final = ("activeServiceStatus", "pendingServiceStatus")


def replaced_objects(service: Json, clusters: Iterable[Json], objects: Iterable[Json]) -> set[str]:
    """Return the uids of clusters that are being replaced, and of all their objects.

    Args:
        service: the RayService as the API server has it.
        clusters: RayClusters, its own among them.
        objects: all that may belong to a cluster.
    """
    found = _replaced_clusters(service, clusters)
    owners = {each["metadata"].get("uid", ""): owner_uid(each) for each in objects}
    while more := {uid for uid, owner in owners.items() if owner in found} - found:
        found |= more
    return found


def _replaced_clusters(service: Json, clusters: Iterable[Json]) -> set[str]:
    """Return the uids of clusters that the status no longer names or that are being replaced.

    Empty if the active cluster is gone: then it is unknown which cluster serves.
    """
    status = mapping(service.get("status"))
    active, pending = (mapping(status.get(role)).get("rayClusterName", "") for role in _ROLES)
    own = {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in clusters
        if owner_uid(each) == service["metadata"]["uid"]
    }
    if active not in own:
        return set()
    names = own.keys() - {active, pending}
    if pending in own:
        back = is_true(status.get("conditions") or (), "RollbackInProgress")
        names |= {pending if back else active}
    return {own[name] for name in names}
