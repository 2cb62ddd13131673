"""DELETE: grace periods, finalizers, propagation, and the response."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from devcluster.apiserver.objects import Json, entries, timestamp
from devcluster.apiserver.options import DeleteOptions
from devcluster.apiserver.resources import ApiResource
from devcluster.apiserver.status import ResourceName, conflict, not_found
from devcluster.apiserver.store import ObjectStore, Stored

_POLICY_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


class Deleter:
    """Deletes objects, or marks them as terminating while finalizers or grace periods hold them."""

    def __init__(self, store: ObjectStore, *, wall: Callable[[], datetime]) -> None:
        self._store = store
        self._wall = wall

    def delete(
        self, resource: ApiResource, namespace: str, name: str, options: DeleteOptions
    ) -> tuple[Stored, bool]:
        """Delete one object.

        Returns:
            Its last or marked version, and whether it was removed.

        Raises:
            ApiError: 404, or 409 when a precondition does not hold.
        """
        key = resource.key(namespace, name)
        stored = self._store.table(resource.table).items.get(key)
        if stored is None:
            raise not_found(resource.name, name)
        _check_preconditions(resource, stored.object["metadata"], options)
        new = stored.fresh()
        if not self._mark(resource, new, options):
            return stored, False
        gone = resource.strategy.can_be_removed(new)
        if options.dry_run:
            as_is = gone and not resource.strategy.is_graceful
            return stored if as_is else Stored(new, 0), gone
        if not gone:
            return self._store.put(resource.table, key, new), False
        if resource.strategy.is_graceful and new != stored.object:
            new = self._store.put(resource.table, key, new).fresh()
        elif _first_deletion(stored.object):
            new = stored.fresh()
        return self._store.remove(resource.table, key, new), True

    def _mark(self, resource: ApiResource, object_: Json, options: DeleteOptions) -> bool:
        """Mark an object as terminating; return whether this deletion changes anything."""
        metadata: Json = object_["metadata"]
        asked = resource.strategy.grace_period(object_, options.grace)
        if not _first_deletion(object_):
            if options.propagation and not metadata.get("deletionGracePeriodSeconds"):
                before = entries(metadata, "finalizers")
                _set_policy_finalizers(metadata, options.propagation)
                return entries(metadata, "finalizers") != before
            return _shorten(metadata, options.grace)
        usual = "Orphan" if resource.strategy.orphans_by_default else ""
        _set_policy_finalizers(metadata, options.propagation or usual)
        deadline = timestamp(self._wall() + timedelta(seconds=asked or 0))
        resource.strategy.begin_deletion(object_, deadline, asked or 0)
        return True


def _check_preconditions(resource: ApiResource, metadata: Json, options: DeleteOptions) -> None:
    """Refuse if the object is another one than the client means."""
    name = ResourceName(resource.group, resource.kind, resource.kind)
    if options.uid and options.uid != metadata["uid"]:
        raise conflict(
            name,
            metadata["name"],
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
        )
    version = options.resource_version
    if version and version != metadata["resourceVersion"]:
        raise conflict(
            name,
            metadata["name"],
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({metadata['resourceVersion']}). "
            "The object might have been modified",
        )


def _first_deletion(object_: Json) -> bool:
    return object_["metadata"].get("deletionTimestamp") is None


def _shorten(metadata: Json, asked: int | None) -> bool:
    """Shorten the grace period of a terminating object, which can never become longer."""
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
