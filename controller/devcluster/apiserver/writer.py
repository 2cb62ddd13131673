"""Create and update: the checks and stamps that every write passes, in upstream's order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.meta import (
    drop_empty_maps,
    generated_name,
    keep_system_fields,
    new_uid,
    timestamp,
    validate_metadata_update,
)
from controller.devcluster.apiserver.patches.json import same_json
from controller.devcluster.apiserver.status import (
    MODIFIED,
    ApiError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
)
from controller.devcluster.apiserver.store import Stored

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from datetime import datetime

    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.options import WriteOptions
    from controller.devcluster.apiserver.resource import ApiResource
    from controller.devcluster.apiserver.status import ResourceName
    from controller.devcluster.apiserver.store import Store

NAME_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did.

    Attributes:
        stored: the new version, or the old one if nothing changed.
        created: whether the object is new.
        warnings: sentences for the `Warning` header.
    """

    stored: Stored
    created: bool = False
    warnings: list[str] = field(default_factory=list[str])


class Writer:
    """Writes objects into the store."""

    def __init__(self, store: Store, *, wall: Callable[[], datetime], rng: random.Random) -> None:
        self._store = store
        self._wall = wall
        self._rng = rng

    def create(
        self, resource: ApiResource, namespace: str, object_: Json, options: WriteOptions
    ) -> Written:
        """Store a new object.

        Raises:
            ApiError: 400, 403, 404 (namespace), 409 or 422.
        """
        object_ = self._accept(resource, namespace, object_)
        warnings = self._decode(resource, object_, options)
        if resource.namespaced:
            self.require_living_namespace(resource, namespace, object_)
        metadata: Json = object_["metadata"]
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        self._stamp(resource, object_)
        self._name(resource, namespace, metadata)
        resource.strategy.prepare_create(object_)
        resource.strategy.default(object_)
        causes = resource.strategy.validate(object_, None)
        if causes:
            raise invalid(resource.name, metadata.get("name", ""), causes)
        key = resource.key(namespace, metadata["name"])
        if key in self._store.table(resource.table).items:
            raise already_exists(resource.name, metadata["name"])
        if options.dry_run:
            return Written(Stored(object_, 0), created=True, warnings=warnings)
        stored = self._store.put(resource.table, key, object_)
        return Written(stored, created=True, warnings=warnings)

    def update(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        change: Callable[[Json], Json],
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> Written:
        """Store a changed object, or remove it if the change lets its deletion finish.

        Args:
            resource: what is written.
            namespace: its namespace.
            name: its name.
            change: makes the wanted object from a copy of the current one.
            options: dry run, field validation.
            subresource: `status`, or empty for the object itself.

        Raises:
            ApiError: 400, 404, 409 or 422.
        """
        key = resource.key(namespace, name)
        stored = self._store.table(resource.table).items.get(key)
        if stored is None:
            raise not_found(resource.name, name)
        old = stored.object
        shown = stored.fresh()
        if resource.from_stored:
            shown = resource.from_stored(shown)
        new = self._accept(resource, namespace, change(shown))
        warnings = self._decode(resource, new, options)
        _check_identity(resource, name, new, old)
        keep_system_fields(new, old)
        drop_empty_maps(new["metadata"])
        if subresource == "status":
            resource.strategy.prepare_status_update(new, old)
        else:
            resource.strategy.prepare_update(new, old)
        resource.strategy.default(new)
        self._count_generation(resource, new, old)
        causes = validate_metadata_update(new["metadata"], old["metadata"])
        causes += resource.strategy.validate(new, old)
        if causes:
            raise invalid(resource.name, name, causes)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if same_json(new, old):
            return Written(stored, warnings=warnings)
        if options.dry_run:
            return Written(Stored(new, 0), warnings=warnings)
        if resource.strategy.may_vanish(new):
            return Written(self._store.remove(resource.table, key, new), warnings=warnings)
        return Written(self._store.put(resource.table, key, new), warnings=warnings)

    def require_living_namespace(
        self, resource: ApiResource, namespace: str, object_: Json
    ) -> None:
        """Refuse to create in a namespace that does not exist or is going away.

        Raises:
            ApiError: 404 or 403.
        """
        stored = self._store.table("namespaces").items.get(namespace)
        if stored is None:
            raise ApiError(
                404,
                "NotFound",
                f'namespaces "{namespace}" not found',
                {"name": namespace, "kind": "namespaces"},
            )
        if stored.object["metadata"].get("deletionTimestamp") is None:
            return
        name = object_["metadata"].get("name", "")
        error = forbidden(
            resource.name,
            name,
            f"unable to create new content in namespace {namespace} because it is being terminated",
        )
        assert error.details is not None
        error.details["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise error

    def _accept(self, resource: ApiResource, namespace: str, object_: Json) -> Json:
        """Check what kind of object this is and bring it into its stored form."""
        _check_kind(resource, object_)
        if not isinstance(object_.setdefault("metadata", {}), dict):
            raise bad_request("metadata must be an object")
        metadata: Json = object_["metadata"]
        if resource.namespaced:
            if metadata.setdefault("namespace", namespace) != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
        else:
            metadata.pop("namespace", None)
        return resource.to_stored(object_) if resource.to_stored else object_

    def _decode(self, resource: ApiResource, object_: Json, options: WriteOptions) -> list[str]:
        unknown = [f'unknown field "{path}"' for path in resource.strategy.decode(object_)]
        if unknown and options.field_validation == "Strict":
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a '
                f"{resource.kind}: strict decoding error: {', '.join(unknown)}"
            )
        return unknown if options.field_validation == "Warn" else []

    def _stamp(self, resource: ApiResource, object_: Json) -> None:
        metadata: Json = object_["metadata"]
        drop_empty_maps(metadata)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            metadata.pop(name, None)
        metadata["uid"] = new_uid(self._rng)
        metadata["creationTimestamp"] = timestamp(self._wall())
        if resource.strategy.counts_generations:
            metadata["generation"] = 1

    def _name(self, resource: ApiResource, namespace: str, metadata: Json) -> None:
        base = metadata.get("generateName")
        if metadata.get("name") or not base:
            return
        taken = self._store.table(resource.table).items
        for _ in range(NAME_ATTEMPTS):
            metadata["name"] = generated_name(base, self._rng)
            if resource.key(namespace, metadata["name"]) not in taken:
                return

    def _count_generation(self, resource: ApiResource, new: Json, old: Json) -> None:
        if resource.strategy.counts_generations and resource.strategy.spec_changed(new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def check_preconditions(
    name: ResourceName, metadata: Json, uid: str, resource_version: str
) -> None:
    """Refuse if the object is another one than the client means.

    Raises:
        ApiError: 409.
    """
    if uid and uid != metadata["uid"]:
        raise conflict(
            name,
            metadata["name"],
            f"Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {metadata['uid']}",
        )
    if resource_version and resource_version != metadata["resourceVersion"]:
        raise conflict(
            name,
            metadata["name"],
            f"Precondition failed: ResourceVersion in precondition: {resource_version}, "
            f"ResourceVersion in object meta: {metadata['resourceVersion']}",
        )


def _check_identity(resource: ApiResource, name: str, new: Json, old: Json) -> None:
    metadata: Json = new["metadata"]
    if metadata.setdefault("name", name) != name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({name})"
        )
    check_preconditions(resource.name, old["metadata"], metadata.get("uid") or "", "")
    wanted = metadata.get("resourceVersion")
    if not wanted and not resource.strategy.unconditional_update:
        detail = "must be specified for an update"
        cause = invalid_value("metadata.resourceVersion", 0, detail)
        raise invalid(resource.name, name, [cause])
    if wanted and wanted != old["metadata"]["resourceVersion"]:
        raise conflict(resource.name, name, MODIFIED)


def _check_kind(resource: ApiResource, object_: Json) -> None:
    kind = object_.setdefault("kind", resource.kind)
    version = object_.setdefault("apiVersion", resource.api_version)
    if version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: unexpected kind {kind}"
        )
