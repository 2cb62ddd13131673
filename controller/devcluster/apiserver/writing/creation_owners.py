"""Records the creator of an object in `managedFields`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.apply.fields import leaves
from controller.devcluster.apiserver.apply.ownership import FieldOwner, write_owners
from controller.devcluster.apiserver.meta import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from controller.devcluster.apiserver.apply.fields import Path
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.options.write_options import WriteOptions
    from controller.devcluster.apiserver.resources.resource import ApiResource


class CreationOwners:
    """Owners of the fields of new objects.

    Args:
        wall: the time of day.
        tracks_all_writers: whether to record creators that do not name themselves too.
    """

    def __init__(self, wall: Callable[[], datetime], *, tracks_all_writers: bool) -> None:
        self._wall = wall
        self._tracks_all_writers = tracks_all_writers

    def owner(
        self, resource: ApiResource, options: WriteOptions, operation: str, subresource: str
    ) -> FieldOwner:
        """Return the field manager of a write with these options; it owns no field yet."""
        return FieldOwner(
            options.field_manager,
            operation,
            resource.api_version,
            subresource,
            timestamp(self._wall()),
        )

    def sent(self, resource: ApiResource, object_: Json, options: WriteOptions) -> Collection[Path]:
        """Return the fields that the creator has set, if they matter for ownership."""
        if not resource.strategy.server_defaulted:
            return ()
        if not (self._tracks_all_writers or options.manager_given):
            return ()
        return leaves(object_, resource.strategy.structure(resource.kind)).keys()

    def record(
        self, resource: ApiResource, object_: Json, sent: Collection[Path], options: WriteOptions
    ) -> None:
        """Record the owner of a new object, if managers are tracked from its creation."""
        object_["metadata"].pop("managedFields", None)
        if not (self._tracks_all_writers or options.manager_given):
            return
        owner = self.owner(resource, options, "Update", "")
        owner.paths = {
            path
            for path in leaves(object_, resource.strategy.structure(resource.kind))
            if path in sent or path[:2] not in resource.strategy.server_defaulted
        }
        write_owners(object_, [owner])
