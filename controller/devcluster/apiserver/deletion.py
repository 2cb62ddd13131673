"""DELETE: grace periods, finalizers, propagation, and what the answer carries."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.jsondata import Json, entries
from controller.devcluster.apiserver.meta import timestamp
from controller.devcluster.apiserver.status import not_found
from controller.devcluster.apiserver.writer import check_preconditions

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.devcluster.apiserver.options import DeleteOptions
    from controller.devcluster.apiserver.resource import ApiResource
    from controller.devcluster.apiserver.store import Store, Stored

_POLICY_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


class Deleter:
    """Deletes objects from the store, or marks them until nothing holds them."""

    def __init__(self, store: Store, *, wall: Callable[[], datetime]) -> None:
        self._store = store
        self._wall = wall

    def delete(
        self, resource: ApiResource, namespace: str, name: str, options: DeleteOptions
    ) -> tuple[Stored, bool]:
        """Delete one object.

        Returns:
            Its last or marked version, and whether it is gone.

        Raises:
            ApiError: 404, or 409 when a precondition does not hold.
        """
        key = resource.key(namespace, name)
        stored = self._store.table(resource.table).items.get(key)
        if stored is None:
            raise not_found(resource.name, name)
        check_preconditions(
            resource.name, stored.object["metadata"], options.uid, options.resource_version
        )
        new = stored.fresh()
        if not self._mark(resource, new, options):
            return stored, False
        gone = resource.strategy.may_vanish(new)
        if options.dry_run:
            return stored, gone
        if gone:
            last = None if _first_deletion(stored.object) else new
            return self._store.remove(resource.table, key, last), True
        return self._store.put(resource.table, key, new), False

    def _mark(self, resource: ApiResource, object_: Json, options: DeleteOptions) -> bool:
        """Mark an object as terminating; whether this deletion changes anything."""
        metadata: Json = object_["metadata"]
        asked = resource.strategy.grace_period(object_, options.grace)
        if not _first_deletion(object_):
            return _shorten(metadata, options.grace)
        _set_policy_finalizers(metadata, options.propagation or self._default_policy(resource))
        now = self._wall()
        metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=asked or 0))
        metadata["deletionGracePeriodSeconds"] = asked or 0
        if metadata.get("generation"):
            metadata["generation"] += 1
        resource.strategy.begin_deletion(object_)
        return True

    @staticmethod
    def _default_policy(resource: ApiResource) -> str:
        return "Orphan" if resource.strategy.orphans_by_default else ""


def _first_deletion(object_: Json) -> bool:
    return object_["metadata"].get("deletionTimestamp") is None


def _shorten(metadata: Json, asked: int | None) -> bool:
    """A terminating object can only be made to go sooner."""
    period = metadata.get("deletionGracePeriodSeconds") or 0
    if asked is None or asked >= period:
        return not metadata.get("finalizers") and not period
    deadline = datetime.strptime(metadata["deletionTimestamp"], "%Y-%m-%dT%H:%M:%S%z")
    metadata["deletionTimestamp"] = timestamp(deadline + timedelta(seconds=asked - period))
    metadata["deletionGracePeriodSeconds"] = asked
    return True


def _set_policy_finalizers(metadata: Json, policy: str) -> None:
    if not policy:
        return
    others = [
        name for name in entries(metadata, "finalizers") if name not in _POLICY_FINALIZERS.values()
    ]
    if policy in _POLICY_FINALIZERS:
        others.append(_POLICY_FINALIZERS[policy])
    if others:
        metadata["finalizers"] = others
    else:
        metadata.pop("finalizers", None)
