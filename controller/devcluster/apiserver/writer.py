"""Create and update: the checks and stamps that every write passes, in upstream's order."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import msgspec

from controller.devcluster.apiserver.apply import apply_object, track_update
from controller.devcluster.apiserver.apply.fields import leaves
from controller.devcluster.apiserver.apply.ownership import Owner, write_owners
from controller.devcluster.apiserver.jsondata import child
from controller.devcluster.apiserver.meta import (
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
    ResourceName,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
)
from controller.devcluster.apiserver.store import Stored
from controller.devcluster.apiserver.typed import DecodeError, json_type, table

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection
    from datetime import datetime

    from controller.devcluster.apiserver.apply.fields import Path
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.kinds import Quotas
    from controller.devcluster.apiserver.options import WriteOptions
    from controller.devcluster.apiserver.resource import ApiResource
    from controller.devcluster.apiserver.store import Store

NAME_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did.

    Attributes:
        stored: the new version, or the old one if nothing changed.
        created: whether the object is new.
    """

    stored: Stored
    created: bool = False


class Writer:
    """Writes objects into the store."""

    def __init__(
        self,
        store: Store,
        quotas: Quotas,
        *,
        wall: Callable[[], datetime],
        rng: random.Random,
        tracks_all_writers: bool = False,
    ) -> None:
        self._store = store
        self._tracks_all_writers = tracks_all_writers
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
        object_ = self._accept(resource, namespace, object_)
        self._decode(resource, object_, options, patched=False)
        if resource.namespaced:
            self.require_living_namespace(resource, namespace, object_)
        metadata: Json = object_["metadata"]
        sent = self._sent(resource, object_, options)
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
        self._quotas.admit(resource, namespace, object_)
        key = resource.key(namespace, metadata["name"])
        existing = self._store.table(resource.table).items.get(key)
        at_revision = bool(metadata.pop("resourceVersion", None)) and not applied
        if at_revision and not (existing and options.dry_run):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if existing:
            goes = "deletionTimestamp" in existing.object["metadata"]
            raise already_exists(resource.name, metadata["name"], goes=goes)
        if not applied:
            self._own(resource, object_, sent, options)
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

        Args:
            resource: what is written.
            namespace: its namespace.
            name: its name.
            change: makes the wanted object from a copy of the current one.
            options: dry run, field validation.
            subresource: `status`, or empty for the object itself.
            patched: whether `change` applies a patch: errors are then about the patch.
            applied: whether `change` is a server-side apply, which keeps managedFields itself.

        Raises:
            ApiError: 400, 404, 409 or 422.
        """
        key = resource.key(namespace, name)
        stored = self._store.table(resource.table).items.get(key)
        if stored is None:
            if not patched and not applied:
                self._refuse_nameless(resource, namespace, name, change({}), options)
            raise not_found(resource.name, name)
        old = stored.object
        shown = stored.fresh()
        if resource.from_stored:
            shown = resource.from_stored(shown)
        shown["apiVersion"] = resource.api_version
        new = self._accept(resource, namespace, change(shown))
        new["apiVersion"] = old["apiVersion"]
        self._decode(resource, new, options, patched=patched)
        _check_identity(resource, name, new, old, patched=patched)
        causes = validate_metadata_update(new["metadata"], old["metadata"])
        keep_system_fields(new, old)
        if subresource == "status":
            resource.strategy.prepare_status_update(new, old)
        else:
            resource.strategy.prepare_update(new, old)
        resource.strategy.default(new)
        writer = self._owner(resource, options, "Update", subresource)
        if not applied:
            track_update(new, old, writer, resource.strategy.structure(resource.kind))
        self._count_generation(resource, new, old)
        causes += resource.strategy.validate(new, old)
        if causes:
            raise invalid(resource.name, name, causes)
        options.warnings.extend(resource.strategy.warnings(new, old))
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if same_json(new, old):
            return Written(stored)
        if options.dry_run:
            return Written(Stored(new, 0))
        if resource.strategy.may_vanish(new):
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
        _check_kind(resource, applied)
        self._check_fitness(resource, applied)
        applied = self._accept(resource, namespace, applied)
        if applied["metadata"].setdefault("name", name) != name:
            raise wrong_name(applied["metadata"]["name"], name)
        structure = resource.strategy.structure(resource.kind)
        applier = self._owner(resource, options, "Apply", subresource)
        key = resource.key(namespace, name)
        if key not in self._store.table(resource.table).items:
            if subresource:
                raise not_found(resource.name, name)
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
        name = object_["metadata"].get("name") or object_["metadata"].get("generateName", "")
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
        if object_.get("metadata") is None:
            object_["metadata"] = {}
        if not isinstance(object_["metadata"], dict):
            place = "value" if resource.custom else f"struct field {resource.kind}.metadata"
            why = (
                f"json: cannot unmarshal {json_type(object_['metadata'])} into Go {place} of type "
                "v1.ObjectMeta"
            )
            raise _undecodable(resource, object_, why, patched=False)
        metadata = cast("Json", object_["metadata"])
        if resource.namespaced:
            if metadata.setdefault("namespace", namespace) != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
        else:
            metadata.pop("namespace", None)
        return resource.to_stored(object_) if resource.to_stored else object_

    def _decode(
        self, resource: ApiResource, object_: Json, options: WriteOptions, *, patched: bool
    ) -> None:
        """Bring an object into its typed form; what is unknown is an error or a warning."""
        try:
            paths = resource.strategy.decode(resource.kind, object_)
        except DecodeError as error:
            raise _undecodable(resource, object_, str(error), patched=patched) from None
        unknown = [f'unknown field "{path}"' for path in paths]
        if unknown and options.field_validation == "Strict":
            why = f"strict decoding error: {', '.join(unknown)}"
            raise _undecodable(resource, object_, why, patched=patched)
        if options.field_validation == "Warn":
            options.warnings.extend(unknown)

    @staticmethod
    def _check_fitness(resource: ApiResource, applied: Json) -> None:
        """Refuse a configuration that does not fit its kind's structure.

        Raises:
            ApiError: 500, as upstream has it.
        """
        if applied.get("metadata") is None:
            applied["metadata"] = {}
        problems = resource.strategy.misfits(resource.kind, applied)
        if not problems:
            return
        metadata = {
            name: text for name, text in child(applied, "metadata").items() if isinstance(text, str)
        }
        group_version = f"{resource.group}/{resource.version}"
        said = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
        raise ApiError(
            500,
            "",
            f"failed to create typed patch object ({metadata.get('namespace', '')}/"
            f"{metadata.get('name', '')}; {group_version}, Kind={resource.kind}): {said}",
        )

    def _sent(
        self, resource: ApiResource, object_: Json, options: WriteOptions
    ) -> Collection[Path]:
        """What a creator itself has set, as far as that matters."""
        if not resource.strategy.given_by_server:
            return ()
        if not (self._tracks_all_writers or options.says_manager):
            return ()
        return leaves(object_, resource.strategy.structure(resource.kind)).keys()

    def _own(
        self, resource: ApiResource, object_: Json, sent: Collection[Path], options: WriteOptions
    ) -> None:
        """Note who owns a new object, if that is to be known from the start."""
        object_["metadata"].pop("managedFields", None)
        if not (self._tracks_all_writers or options.says_manager):
            return
        owner = self._owner(resource, options, "Update", "")
        owner.paths = {
            path
            for path in leaves(object_, resource.strategy.structure(resource.kind))
            if path in sent or path[:2] not in resource.strategy.given_by_server
        }
        write_owners(object_, [owner])

    def _owner(
        self, resource: ApiResource, options: WriteOptions, operation: str, subresource: str
    ) -> Owner:
        return Owner(
            options.field_manager,
            operation,
            resource.api_version,
            subresource,
            timestamp(self._wall()),
        )

    def _refuse_nameless(
        self, resource: ApiResource, namespace: str, name: str, new: Json, options: WriteOptions
    ) -> None:
        """Of an object that does not exist, say first what is wrong with what was sent.

        Raises:
            ApiError: 400.
        """
        new = self._accept(resource, namespace, new)
        self._decode(resource, new, options, patched=False)
        if not new["metadata"].get("name"):
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: "
                "name must be provided"
            )
        if new["metadata"]["name"] != name:
            raise wrong_name(new["metadata"]["name"], name)

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


def _undecodable(resource: ApiResource, object_: Json, why: str, *, patched: bool) -> ApiError:
    if not patched:
        return bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {why}"
        )
    text = msgspec.json.encode(object_).decode()
    return invalid(ResourceName("", "", ""), "", [invalid_value("patch", text, why)])


def never_that_one(resource: ApiResource, key: str, uid: str, options: WriteOptions) -> ApiError:
    """409: an object is to be replaced that is gone; `key` is upstream's for it."""
    prefix = "/" if options.dry_run else "/registry/"
    return conflict(
        resource.name,
        key.rpartition("/")[2],
        f"StorageError: invalid object, Code: 4, Key: {prefix}{key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        "UID in object meta: ",
    )


def wrong_name(found: str, expected: str) -> ApiError:
    """400: the object is not the one that the path names."""
    return bad_request(
        f"the name of the object ({found}) does not match the name on the URL ({expected})"
    )


def _check_identity(
    resource: ApiResource, name: str, new: Json, old: Json, *, patched: bool
) -> None:
    metadata: Json = new["metadata"]
    if metadata.setdefault("name", name) != name:
        raise wrong_name(metadata["name"], name)
    uid = metadata.get("uid")
    if uid and uid != old["metadata"]["uid"] and not patched:
        key = resource.key(old["metadata"].get("namespace", ""), name)
        raise conflict(
            resource.name,
            name,
            f"StorageError: invalid object, Code: 4, Key: /registry/{resource.plural}/{key}, "
            f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
            f"UID in precondition: {uid}, "
            f"UID in object meta: {old['metadata']['uid']}",
        )
    wanted = metadata.get("resourceVersion")
    if not wanted and not resource.strategy.unconditional_update:
        detail = "must be specified for an update"
        cause = invalid_value("metadata.resourceVersion", 0, detail)
        plural = ResourceName(resource.group, resource.plural, resource.plural)
        raise invalid(plural, name, [cause])
    if wanted and wanted != old["metadata"]["resourceVersion"]:
        raise conflict(resource.name, name, MODIFIED)


def _check_kind(resource: ApiResource, object_: Json) -> None:
    if resource.custom:
        _check_custom_kind(resource, object_)
        return
    kind = object_["kind"] = object_.get("kind") or resource.kind
    version = object_["apiVersion"] = object_.get("apiVersion") or resource.api_version
    if version != resource.api_version or kind not in table():
        raise bad_request(
            f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a '
            f'{resource.kind}: no kind "{kind}" is registered for version "{version}" in scheme '
            '"pkg/api/legacyscheme/scheme.go:30"'
        )
    if kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"converting ({resource.version}.{kind}) to "
            f"({resource.group or 'core'}.{resource.kind}): unknown conversion"
        )


def _check_custom_kind(resource: ApiResource, object_: Json) -> None:
    kind, version = object_.get("kind"), object_.get("apiVersion")
    if not kind:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            "Object 'Kind' is missing"
        )
    if version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind:
        name = child(object_, "metadata").get("name", "")
        why = f"must be {resource.kind}"
        said = ResourceName(resource.group, resource.plural, kind)
        raise invalid(said, name, [invalid_value("kind", kind, why)])
