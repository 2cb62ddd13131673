"""Create, update and apply: checks and server-set fields, in upstream's order."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from controller.apimachinery.json_patch import same_json
from controller.devcluster.apiserver.apply import apply_object, track_update
from controller.devcluster.apiserver.apply.fields import leaves
from controller.devcluster.apiserver.apply.ownership import FieldOwner, write_owners
from controller.devcluster.apiserver.identity import (
    check_identity,
    check_kind,
    undecodable,
    wrong_name,
)
from controller.devcluster.apiserver.jsondata import child
from controller.devcluster.apiserver.meta import (
    generated_name,
    keep_system_fields,
    new_uid,
    timestamp,
    validate_metadata_update,
)
from controller.devcluster.apiserver.status import (
    ApiError,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
)
from controller.devcluster.apiserver.store import Stored
from controller.devcluster.apiserver.typed import DecodeError, json_type

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection
    from datetime import datetime

    from controller.devcluster.apiserver.apply.fields import Path
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.kinds import Quotas
    from controller.devcluster.apiserver.resource import ApiResource
    from controller.devcluster.apiserver.store import Store
    from controller.devcluster.apiserver.write_options import WriteOptions

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
        sent = self._fields_sent(resource, object_, options)
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
            raise already_exists(resource.name, metadata["name"], terminating=goes)
        if not applied:
            self._record_owner(resource, object_, sent, options)
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
        check_identity(resource, name, new, old, patched=patched or applied)
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
        self._check_applied(resource, applied)
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
        metadata: Json = object_["metadata"]
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
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
        """Check the object's kind and convert it to the stored form."""
        check_kind(resource, object_)
        if object_.get("metadata") is None:
            object_["metadata"] = {}
        if not isinstance(object_["metadata"], dict):
            place = "value" if resource.custom else f"struct field {resource.kind}.metadata"
            why = (
                f"json: cannot unmarshal {json_type(object_['metadata'])} into Go {place} of type "
                "v1.ObjectMeta"
            )
            raise undecodable(resource, object_, why, patched=False)
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
        """Decode an object into its typed form; unknown fields are errors or warnings."""
        try:
            paths = resource.strategy.decode(resource.kind, object_)
        except DecodeError as error:
            raise undecodable(resource, object_, str(error), patched=patched) from None
        unknown = [f'unknown field "{path}"' for path in paths]
        if unknown and options.field_validation == "Strict":
            why = f"strict decoding error: {', '.join(unknown)}"
            raise undecodable(resource, object_, why, patched=patched)
        if options.field_validation == "Warn":
            options.warnings.extend(unknown)

    @staticmethod
    def _check_applied(resource: ApiResource, applied: Json) -> None:
        """Refuse an applied configuration that does not match the kind's structure.

        Raises:
            ApiError: 500, as upstream has it.
        """
        if applied.get("metadata") is None:
            applied["metadata"] = {}
        problems = resource.strategy.apply_errors(resource.kind, applied)
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

    def _fields_sent(
        self, resource: ApiResource, object_: Json, options: WriteOptions
    ) -> Collection[Path]:
        """Fields that the creator has set, if they matter for ownership."""
        if not resource.strategy.server_defaulted:
            return ()
        if not (self._tracks_all_writers or options.manager_given):
            return ()
        return leaves(object_, resource.strategy.structure(resource.kind)).keys()

    def _record_owner(
        self, resource: ApiResource, object_: Json, sent: Collection[Path], options: WriteOptions
    ) -> None:
        """Record the owner of a new object, if managers are tracked from its creation."""
        object_["metadata"].pop("managedFields", None)
        if not (self._tracks_all_writers or options.manager_given):
            return
        owner = self._owner(resource, options, "Update", "")
        owner.paths = {
            path
            for path in leaves(object_, resource.strategy.structure(resource.kind))
            if path in sent or path[:2] not in resource.strategy.server_defaulted
        }
        write_owners(object_, [owner])

    def _owner(
        self, resource: ApiResource, options: WriteOptions, operation: str, subresource: str
    ) -> FieldOwner:
        return FieldOwner(
            options.field_manager,
            operation,
            resource.api_version,
            subresource,
            timestamp(self._wall()),
        )

    def _refuse_nameless(
        self, resource: ApiResource, namespace: str, name: str, new: Json, options: WriteOptions
    ) -> None:
        """Report errors of the body before reporting that the object does not exist.

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
