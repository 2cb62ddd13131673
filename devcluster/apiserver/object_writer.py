"""Create, update and apply: checks and server-set fields, in upstream's order."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Collection
from datetime import datetime

from msgspec import Struct

from controller.apimachinery.patches import same_json
from devcluster.apiserver.bodies import (
    accept,
    check_applied,
    check_body_of_missing,
    check_identity,
    check_kind,
    decode,
    no_name,
    wrong_name,
)
from devcluster.apiserver.kinds import Quotas
from devcluster.apiserver.managed_fields import (
    FieldOwner,
    Path,
    leaves,
    track_update,
    write_owners,
)
from devcluster.apiserver.objects import (
    Json,
    child,
    generated_name,
    keep_system_fields,
    new_uid,
    timestamp,
    validate_metadata_update,
)
from devcluster.apiserver.options import WriteOptions
from devcluster.apiserver.patches import apply_object
from devcluster.apiserver.resources import ApiResource
from devcluster.apiserver.status import (
    ApiError,
    ResourceName,
    already_exists,
    forbidden,
    invalid,
    not_found,
)
from devcluster.apiserver.store import ObjectStore, Stored


class CreationOwners:
    """Owners of the fields of new objects.

    Args:
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


def require_living_definition(store: ObjectStore, resource: ApiResource, object_: Json) -> None:
    """Refuse to create an object whose definition is being deleted.

    Raises:
        ApiError: 403.
    """
    stored = store.table("customresourcedefinitions.apiextensions.k8s.io").items.get(resource.table)
    if stored is None or stored.object["metadata"].get("deletionTimestamp") is None:
        return
    metadata: Json = object_["metadata"]
    why = "create not allowed while custom resource definition is terminating"
    raise forbidden(resource.name, metadata.get("name", ""), why)


def require_living_namespace(
    store: ObjectStore, resource: ApiResource, namespace: str, object_: Json
) -> None:
    """Refuse to create in a namespace that does not exist or is terminating.

    Raises:
        ApiError: 404 or 403.
    """
    stored = store.table("namespaces").items.get(namespace)
    if stored is None:
        raise not_found(ResourceName("", "namespaces", "Namespace"), namespace)
    if stored.object["metadata"].get("deletionTimestamp") is None:
        return
    metadata: Json = object_["metadata"]
    name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(resource.name, name, why)
    assert error.details is not None
    message = f"namespace {namespace} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
    error.details["causes"] = [cause]
    raise error


NAME_ATTEMPTS = 8


class Written(Struct, frozen=True):
    """The outcome of a write.

    Attributes:
        stored: the new version, or the old one if nothing changed.
    """

    stored: Stored
    created: bool = False


class ObjectWriter:
    """Writes objects into the store."""

    def __init__(
        self,
        store: ObjectStore,
        quotas: Quotas,
        *,
        wall: Callable[[], datetime],
        rng: random.Random,
        tracks_all_writers: bool = False,
        has_account: Callable[[str, str], bool] = lambda _namespace, _name: True,
    ) -> None:
        self._store = store
        self._has_account = has_account
        self._owners = CreationOwners(wall, tracks_all_writers=tracks_all_writers)
        self._quotas = quotas
        self._wall = wall
        self._rng = rng

    def create(
        self,
        resource: ApiResource,
        namespace: str,
        object_: Json,
        options: WriteOptions,
        *,
        applied: bool = False,
    ) -> Written:
        """Store a new object; if it was `applied`, its managedFields are set already.

        Raises:
            ApiError: 400, 403, 404 (namespace), 409 or 422.
        """
        if resource.custom:
            require_living_definition(self._store, resource, object_)
        object_ = accept(resource, namespace, object_)
        decode(resource, object_, options, patched=False)
        if resource.namespaced:
            require_living_namespace(self._store, resource, namespace, object_)
        sent = self._owners.sent(resource, object_, options)
        self._prepare_create(resource, namespace, object_, options)
        metadata: Json = object_["metadata"]
        key = resource.key(namespace, metadata["name"])
        existing = self._store.table(resource.table).items.get(key)
        at_revision = bool(metadata.pop("resourceVersion", None)) and not applied
        if at_revision and not (existing and options.dry_run):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if existing:
            goes = "deletionTimestamp" in existing.object["metadata"]
            raise already_exists(resource.name, metadata["name"], terminating=goes)
        if not applied:
            self._owners.record(resource, object_, sent, options)
        if options.dry_run:
            return Written(Stored(object_, 0), created=True)
        stored = self._store.put(resource.table, key, object_)
        return Written(stored, created=True)

    def update(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        change: Callable[[Json], Json],
        options: WriteOptions,
        *,
        subresource: str = "",
        patched: bool = False,
        applied: bool = False,
    ) -> Written:
        """Store a changed object, or remove it if the change lets its deletion finish.

        `change` returns the new object from a copy of the current one. It may be a patch: errors
        are then about the patch; or an apply, which keeps managedFields itself.

        Raises:
            ApiError: 400, 404, 409 or 422.
        """
        key = resource.key(namespace, name)
        stored = self._store.table(resource.table).items.get(key)
        if stored is None:
            if not patched and not applied:
                check_body_of_missing(resource, namespace, name, change({}), options)
            raise not_found(resource.name, name)
        old = stored.object
        new = self._wanted(resource, stored, change, options, patched=patched)
        check_identity(resource, name, new, old, patched=patched or applied)
        self._prepare_update(resource, new, old, options, subresource, applied=applied)
        if same_json(new, old):
            return Written(stored)
        if options.dry_run:
            return Written(Stored(new, 0))
        if resource.strategy.can_be_removed(new):
            self._store.remove(resource.table, key)
            return Written(Stored(new, stored.revision))
        return Written(self._store.put(resource.table, key, new))

    def apply(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        applied: Json,
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> Written:
        """Create an object, or merge what is applied into it.

        Raises:
            ApiError: as `create` and `update`, and 409 if others own what would change.
        """
        check_kind(resource, applied)
        check_applied(resource, applied)
        key = resource.key(namespace, name)
        exists = key in self._store.table(resource.table).items
        given = child(applied, "metadata").get("namespace", namespace) if exists else namespace
        applied = accept(resource, given, applied)  # conflicts come before another namespace
        is_named = bool(applied["metadata"].get("name"))
        if applied["metadata"].setdefault("name", name) != name:
            raise wrong_name(applied["metadata"]["name"], name)
        structure = resource.strategy.structure(resource.kind)
        applier = self._owners.owner(resource, options, "Apply", subresource)
        if not exists:
            if subresource:
                raise not_found(resource.name, name)
            if not is_named:
                raise no_name(name)
            applier.paths = set(leaves(applied, structure))
            write_owners(applied, [applier])
            return self.create(resource, namespace, applied, options, applied=True)
        return self.update(
            resource,
            namespace,
            name,
            lambda current: apply_object(current, applied, applier, structure, force=options.force),
            options,
            subresource=subresource,
            applied=True,
        )

    def _wanted(
        self,
        resource: ApiResource,
        stored: Stored,
        change: Callable[[Json], Json],
        options: WriteOptions,
        *,
        patched: bool,
    ) -> Json:
        """Return the result of a change to the shown version, in its stored form."""
        shown = stored.fresh()
        if resource.from_stored:
            shown = resource.from_stored(shown)
        shown["apiVersion"] = resource.api_version
        new = accept(resource, stored.object["metadata"].get("namespace", ""), change(shown))
        new["apiVersion"] = stored.object["apiVersion"]
        decode(resource, new, options, patched=patched)
        return new

    def _prepare_update(
        self,
        resource: ApiResource,
        new: Json,
        old: Json,
        options: WriteOptions,
        subresource: str,
        *,
        applied: bool,
    ) -> None:
        causes = validate_metadata_update(new["metadata"], old["metadata"])
        keep_system_fields(new, old)
        if subresource == "status":
            resource.strategy.prepare_status_update(new, old)
        else:
            resource.strategy.prepare_update(new, old)
        resource.strategy.default(new)
        writer = self._owners.owner(resource, options, "Update", subresource)
        if not applied:
            track_update(new, old, writer, resource.strategy.structure(resource.kind))
        self._count_generation(resource, new, old)
        causes += resource.strategy.validate(new, old)
        if causes:
            raise invalid(resource.name, old["metadata"]["name"], causes)
        options.warnings.extend(resource.strategy.warnings(new, old))
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]

    def _prepare_create(
        self, resource: ApiResource, namespace: str, object_: Json, options: WriteOptions
    ) -> None:
        metadata: Json = object_["metadata"]
        self._stamp(resource, object_)
        self._name(resource, namespace, metadata)
        resource.strategy.prepare_create(object_)
        if "status" in resource.blank:
            object_.setdefault("status", copy.deepcopy(resource.blank["status"]))
        resource.strategy.default(object_)
        causes = resource.strategy.validate(object_, None)
        if causes:
            raise invalid(resource.name, metadata.get("name", ""), causes)
        options.warnings.extend(resource.strategy.warnings(object_, None))
        if resource.table == "pods":
            self._admit_account(resource, namespace, object_)
        self._quotas.admit(resource, namespace, object_)

    def _admit_account(self, resource: ApiResource, namespace: str, pod: Json) -> None:
        account = child(pod, "spec").get("serviceAccountName") or "default"
        if not self._has_account(namespace, account):
            why = (
                f"error looking up service account {namespace}/{account}: serviceaccount "
                f'"{account}" not found'
            )
            raise forbidden(resource.name, pod["metadata"].get("name", ""), why)

    def _stamp(self, resource: ApiResource, object_: Json) -> None:
        metadata: Json = object_["metadata"]
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
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
