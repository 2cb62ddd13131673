"""Serves custom resources: turns a CustomResourceDefinition into entries of the registry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from devcluster.apiserver.columns import DATE, NAME, PathError, custom_columns
from devcluster.apiserver.crd.custom import CustomStrategy
from devcluster.apiserver.crd.schema import SchemaError, compile_schema
from devcluster.apiserver.deletion import Deleter
from devcluster.apiserver.objects import Json, child, entries, timestamp
from devcluster.apiserver.options import DeleteOptions
from devcluster.apiserver.resources import ApiResource, Registry, ScalePaths, Strategy
from devcluster.apiserver.status import StatusCause, invalid_value, required
from devcluster.apiserver.store import ObjectStore, StoredEvent

TABLE = "customresourcedefinitions.apiextensions.k8s.io"
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


class CrdStrategy(Strategy):
    """Definitions are established at once, and removed after their last object."""

    has_status = True
    counts_generations = True

    def __init__(self, wall: Callable[[], datetime]) -> None:
        self._wall = wall

    def default(self, object_: Json) -> None:
        """Fill in default names and the conversion strategy."""
        spec: Json = object_.setdefault("spec", {})
        names: Json = spec.setdefault("names", {})
        if names.get("kind"):
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", f"{names['kind']}List")
        spec.setdefault("conversion", {"strategy": "None"})

    def prepare_create(self, object_: Json) -> None:
        """Accept the names and set the conditions; names never conflict here."""
        self.default(object_)
        spec: Json = object_["spec"]
        now = timestamp(self._wall())
        object_["status"] = {
            "acceptedNames": spec["names"],
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                _condition(
                    "Established",
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                    now,
                ),
            ],
            "storedVersions": [
                version["name"] for version in entries(spec, "versions") if version.get("storage")
            ],
        }

    def begin_deletion(self, object_: Json, deadline: str, grace: int) -> None:  # noqa: ARG002
        """Keep the definition until its objects are deleted."""
        object_["metadata"]["deletionTimestamp"] = deadline
        finalizers: list[str] = object_["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        object_["status"]["conditions"].append(
            _condition(
                "Terminating",
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; "
                "CustomResource deletion will begin soon",
                deadline,
            )
        )

    def prepare_update(self, new: Json, old: Json) -> None:
        """Accept changed names and new stored versions."""
        super().prepare_update(new, old)
        stored: list[str] = list(entries(old["status"], "storedVersions"))
        for version in entries(child(new, "spec"), "versions"):
            if version.get("storage") and version["name"] not in stored:
                stored.append(version["name"])
        names = child(child(new, "spec"), "names")
        new["status"] = old["status"] | {
            "storedVersions": stored,
            "acceptedNames": old["status"]["acceptedNames"] | names,
        }

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:
        """Validate name, versions, schemas and rules; refuse what this server would ignore."""
        causes = super().validate(object_, old)
        spec: Json = object_["spec"]
        names: Json = spec["names"]
        for field in ("group", "scope"):
            if not spec.get(field):
                causes.append(required(f"spec.{field}"))
        for field in ("plural", "kind"):
            if not names.get(field):
                causes.append(required(f"spec.names.{field}"))
        expected = f"{names.get('plural')}.{spec.get('group')}"
        if not causes and object_["metadata"]["name"] != expected:
            detail = 'must be spec.names.plural+"."+spec.group'
            causes.append(invalid_value("metadata.name", object_["metadata"]["name"], detail))
        return causes + _version_causes(spec)


def _version_causes(spec: Json) -> list[StatusCause]:
    causes: list[StatusCause] = []
    versions: list[Json] = entries(spec, "versions")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        causes.append(invalid_value("spec.versions", len(versions), detail))
    if child(spec, "conversion").get("strategy", "None") != "None":
        detail = "only the strategy None is supported by this server"
        causes.append(
            invalid_value("spec.conversion.strategy", spec["conversion"]["strategy"], detail)
        )
    for index, version in enumerate(versions):
        field = f"spec.versions[{index}]"
        schema = child(version, "schema").get("openAPIV3Schema")
        if schema is None:
            causes.append(required(f"{field}.schema.openAPIV3Schema"))
            continue
        try:
            compile_schema(schema)
            custom_columns(version)
        except (SchemaError, PathError) as error:
            causes.append(
                StatusCause(
                    "FieldValueInvalid",
                    f"{field}.schema.openAPIV3Schema",
                    f"Invalid value: {error}",
                )
            )
    return causes


def _condition(kind: str, reason: str, message: str, now: str) -> Json:
    return {
        "type": kind,
        "status": "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


class Definitions:
    """Keeps the registry in step with the stored definitions and empties deleted ones."""

    def __init__(self, store: ObjectStore, registry: Registry, deleter: Deleter) -> None:
        self._store = store
        self._registry = registry
        self._deleter = deleter
        store.on_write.append(self._follow)

    def _follow(self, event: StoredEvent) -> None:
        if event.table == TABLE:
            self._definition_changed(event)
        elif event.type == "DELETED" and event.table in self._store.table(TABLE).items:
            self._release(event.table)

    def _definition_changed(self, event: StoredEvent) -> None:
        definition = event.current.object
        spec: Json = definition["spec"]
        if event.type == "DELETED":
            self._registry.remove_group_resource(spec["group"], spec["names"]["plural"])
            self._store.table(event.key).end_watches()
            return
        if event.previous is None or event.previous.object["spec"] != spec:
            self._registry.remove_group_resource(spec["group"], spec["names"]["plural"])
            for resource in served_resources(definition):
                self._registry.add(resource)
            if event.previous is not None:
                self._store.table(event.key).read_again(event.revision, _reader(definition))
        if definition["metadata"].get("deletionTimestamp"):
            self._empty(event.key, spec)

    def _empty(self, table: str, spec: Json) -> None:
        version = next(version["name"] for version in spec["versions"] if version["storage"])
        resource = self._registry.find(spec["group"], version, spec["names"]["plural"])
        for key, _ in self._store.table(table).now():
            namespace, _, name = key.rpartition("/")
            if resource is not None:
                self._deleter.delete(resource, namespace, name, DeleteOptions())
        self._release(table)

    def _release(self, table: str) -> None:
        stored = self._store.table(TABLE).items.get(table)
        if stored is None or self._store.table(table).items:
            return
        definition = stored.fresh()
        metadata: Json = definition["metadata"]
        if not metadata.get("deletionTimestamp") or FINALIZER not in metadata["finalizers"]:
            return
        metadata["finalizers"].remove(FINALIZER)
        if metadata["finalizers"]:
            self._store.put(TABLE, table, definition)
        else:
            del metadata["finalizers"]
            self._store.remove(TABLE, table, definition)


def _reader(definition: Json) -> Callable[[Json], None]:
    """Return a function that prunes and defaults an object by the stored version's schema."""
    spec: Json = definition["spec"]
    [schema] = [
        version["schema"]["openAPIV3Schema"] for version in spec["versions"] if version["storage"]
    ]
    strategy = CustomStrategy(schema, has_status=False)

    def read(object_: Json) -> None:
        strategy.decode(spec["names"]["kind"], object_)
        strategy.default(object_)

    return read


def served_resources(definition: Json) -> list[ApiResource]:
    """Return the resources of a definition: one for each served version."""
    spec: Json = definition["spec"]
    names: Json = spec["names"]
    resources: list[ApiResource] = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources: Json = child(version, "subresources")
        scale = ScalePaths.of(subresources["scale"]) if "scale" in subresources else None
        resources.append(
            ApiResource(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                table=definition["metadata"]["name"],
                strategy=CustomStrategy(
                    version["schema"]["openAPIV3Schema"],
                    has_status="status" in subresources,
                    scale=scale,
                ),
                singular=names["singular"],
                list_kind=names["listKind"],
                short_names=tuple(entries(names, "shortNames")),
                categories=tuple(entries(names, "categories")),
                namespaced=spec["scope"] == "Namespaced",
                subresources=frozenset(subresources.keys() & {"status", "scale"}),
                scale=scale,
                verbs=CUSTOM_VERBS,
                custom=True,
                columns=(NAME, *(custom_columns(version) or (DATE,))),
            )
        )
    return resources
