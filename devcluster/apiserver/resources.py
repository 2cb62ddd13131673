"""Served resources: the table of them, the behaviour of their kinds, and their fields of scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from devcluster.apiserver.builtin_types import DecodeError, decode_kind
from devcluster.apiserver.columns import Column
from devcluster.apiserver.managed_fields import (
    Path,
    Structure,
    TypedStructure,
    invalid_list_keys,
)
from devcluster.apiserver.objects import (
    Json,
    child,
    is_subdomain,
    validate_core_finalizers,
    validate_metadata,
)
from devcluster.apiserver.status import ResourceName, StatusCause, invalid_value

SYSTEM_PARTS = frozenset({"apiVersion", "kind", "metadata"})


class Strategy:
    """Behaviour of an ordinary kind; special kinds override what they need.

    Attributes:
        has_status: whether `status` is written by the status subresource only.
        counts_generations: whether changes outside metadata and status bump the generation.
        is_graceful: whether deletion is noted in the object first, even if it then goes at once.
        returns_deleted: whether DELETE answers with the object instead of a Status.
        unconditional_update: whether a PUT may come without a resourceVersion.
        orphans_by_default: whether deletion without a policy orphans the dependents.
        deletion_warning: warning when no deletion policy is given.
        status_keeps_metadata: whether a status write leaves all metadata unchanged.
        standard_finalizers: whether finalizers without a prefix must be standard ones.
        server_defaulted: fields that the server fills in, which their creator does not own.
        typed: whether the kind is in the table of types.
    """

    has_status: bool = False
    counts_generations: bool = False
    is_graceful: bool = False
    returns_deleted: bool = False
    unconditional_update: bool = True
    creates_on_update: bool = False
    orphans_by_default: bool = False
    deletion_warning: str = ""
    status_keeps_metadata: bool = False
    standard_finalizers: bool = True
    server_defaulted: frozenset[Path] = frozenset()
    typed: bool = True
    name_rule: Callable[[str], list[str]] = staticmethod(is_subdomain)

    def __init__(self, **traits: Any) -> None:
        assert traits.keys() <= vars(Strategy).keys()
        vars(self).update(traits)

    def openapi_schema(self) -> Json | None:
        """Return the kind's schema for `kubectl explain`, None if there is none."""
        return None

    def decode(self, kind: str, object_: Json) -> list[str]:
        """Bring an object into its typed form, in place.

        Returns:
            Paths of unknown fields, which are dropped.

        Raises:
            DecodeError: a value has the wrong type.
        """
        return decode_kind(kind, object_)

    def apply_errors(self, kind: str, object_: Json) -> list[str]:
        """Return errors of an applied configuration: unknown fields, wrong types, bad list keys."""
        try:
            unknown = self.decode(kind, msgspec.json.decode(msgspec.json.encode(object_)))
        except DecodeError as error:
            return [str(error)] if error.is_type else []
        undeclared = [f".{path}: field not declared in schema" for path in sorted(unknown)]
        return undeclared + list(
            invalid_list_keys(object_, self.structure(kind), strict=not self.typed)
        )

    def structure(self, kind: str) -> Structure:
        """Return the structure by which server-side apply merges objects of the kind."""
        return TypedStructure(kind)

    def default(self, object_: Json) -> None:
        """Fill in defaults, in place."""

    def prepare_create(self, object_: Json) -> None:
        """Reset what a creator must not set, in place."""
        if self.has_status:
            object_.pop("status", None)

    def prepare_update(self, new: Json, old: Json) -> None:
        """Keep what a write of the main resource must not change, in place."""
        if self.has_status:
            _carry_over(new, old, "status")

    def prepare_status_update(self, new: Json, old: Json) -> None:
        """Keep everything but the status, in place."""
        for part in (old.keys() | new.keys()) - {"status"} - SYSTEM_PARTS:
            _carry_over(new, old, part)
        if self.status_keeps_metadata:
            managed = new["metadata"].get("managedFields")
            new["metadata"] = dict(old["metadata"])
            if managed is not None:
                new["metadata"]["managedFields"] = managed

    def warnings(self, object_: Json, old: Json | None) -> list[str]:  # noqa: ARG002 - kinds that care override
        """Return warnings for the writer."""
        return []

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:  # noqa: ARG002 - kinds that care override
        """Return validation errors of a new object, or of a change from `old`."""
        causes = validate_metadata(object_["metadata"], self.name_rule)
        if self.standard_finalizers:
            causes += validate_core_finalizers(object_["metadata"])
        return causes

    def spec_changed(self, new: Json, old: Json) -> bool:
        """Return whether the change counts as a new generation."""
        ignored = SYSTEM_PARTS | {"status"} if self.has_status else SYSTEM_PARTS
        parts = (new.keys() | old.keys()) - ignored
        return any(new.get(part) != old.get(part) for part in parts)

    def can_be_removed(self, object_: Json) -> bool:
        """Return whether a terminating object can be removed."""
        metadata: Json = object_["metadata"]
        return (
            metadata.get("deletionTimestamp") is not None
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
        )

    def begin_deletion(self, object_: Json, deadline: str, grace: int) -> None:
        """Mark the object as terminating, in place, with a grace period in seconds."""
        metadata: Json = object_["metadata"]
        metadata["deletionTimestamp"] = deadline
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1

    def grace_period(self, object_: Json, asked: int | None) -> int | None:  # noqa: ARG002 - kinds that care override
        """Return the grace period in seconds; None if the kind has no graceful deletion."""
        return None


def _carry_over(new: Json, old: Json, part: str) -> None:
    if part in old:
        new[part] = old[part]
    else:
        new.pop(part, None)


SCALE: Final[Json] = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class ScalePaths(msgspec.Struct, frozen=True):
    """Paths in the objects of a kind, as its definition has them."""

    wanted: str
    present: str
    selector: str = ""

    @classmethod
    def of(cls, subresource: Json) -> ScalePaths:
        """Read `subresources.scale` of a definition."""
        return cls(
            subresource.get("specReplicasPath", ""),
            subresource.get("statusReplicasPath", ""),
            subresource.get("labelSelectorPath", ""),
        )

    def scale(self, object_: Json) -> Json:
        """Return the Scale of an object; its number is missing if the object has none."""
        metadata: Json = object_["metadata"]
        wanted, selector = _value(object_, self.wanted), _value(object_, self.selector)
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
            "spec": {} if wanted is None else {"replicas": wanted},
            "status": {"replicas": _value(object_, self.present) or 0}
            | ({"selector": selector} if selector else {}),
        }

    def set_wanted(self, object_: Json, replicas: int) -> None:
        """Write the desired number into an object, in place."""
        *names, last = _names(self.wanted)
        for name in names:
            object_ = object_.setdefault(name, {})
        object_[last] = replicas

    def problems(self, object_: Json) -> list[StatusCause]:
        """List the errors in the wanted number, in any write of the object."""
        found = _value(object_, self.wanted)
        if type(found) is int and found < 0:
            return [invalid_value(self.wanted, found, "should be a non-negative integer")]
        return []


def _value(object_: Json, path: str) -> Any:
    *names, last = _names(path)
    for name in names:
        object_ = child(object_, name)
    return object_.get(last)


def _names(path: str) -> list[str]:
    return path.strip(".").split(".")


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def metadata_field(name: str) -> Callable[[Json], str]:
    """Return a reader of a metadata field for field selectors."""
    return lambda object_: object_["metadata"].get(name, "")


METADATA_FIELDS: Mapping[str, Callable[[Json], str]] = {
    "metadata.name": metadata_field("name"),
    "metadata.namespace": metadata_field("namespace"),
}


class ApiResource(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One resource under one group version.

    Attributes:
        table: storage table; all versions of a resource share one.
        custom: whether it comes from a CustomResourceDefinition; list items then carry their kind.
        blank: upstream's empty object of the kind without metadata; bookmarks
            carry it.
        to_stored: converts from this version to the stored form, None if they are the same.
        from_stored: converts from the stored form to this version, None if they are the same.
    """

    group: str
    version: str
    plural: str
    kind: str
    table: str
    strategy: Strategy = msgspec.field(default_factory=Strategy)
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: frozenset[str] = frozenset()
    scale: ScalePaths | None = None
    custom: bool = False
    fields: Mapping[str, Callable[[Json], str]] = msgspec.field(
        default_factory=lambda: METADATA_FIELDS
    )
    columns: tuple[Column, ...] = ()
    blank: Json = msgspec.field(default_factory=dict[str, Any])
    to_stored: Callable[[Json], Json] | None = None
    from_stored: Callable[[Json], Json] | None = None

    @property
    def api_version(self) -> str:
        """`v1` or `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> ResourceName:
        """The name of the resource in errors."""
        return ResourceName(self.group, self.plural, self.kind)

    @property
    def list_name(self) -> str:
        """Kind of lists."""
        return self.list_kind or f"{self.kind}List"

    def key(self, namespace: str, name: str) -> str:
        """Return the key in the storage table."""
        return f"{namespace}/{name}" if self.namespaced else name


class Registry:
    """Resources by group, version and plural name, in the order in which they were added.

    Attributes:
        changes: number of changes, for caches of discovery documents.
    """

    def __init__(self, resources: Iterable[ApiResource] = ()) -> None:
        self.changes = 0
        self._resources: dict[tuple[str, str, str], ApiResource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: ApiResource) -> None:
        """Serve a resource from now on; an older one of the same name is replaced."""
        self._resources[resource.group, resource.version, resource.plural] = resource
        self.changes += 1

    def remove_group_resource(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
        for key in [key for key in self._resources if (key[0], key[2]) == (group, plural)]:
            del self._resources[key]
            self.changes += 1

    def find(self, group: str, version: str, plural: str) -> ApiResource | None:
        """Return the resource at this place, None if it is not served."""
        return self._resources.get((group, version, plural))

    def is_builtin(self, group: str) -> bool:
        """Return whether a group is served that does not come from definitions."""
        return any(one.group == group and not one.custom for one in self)

    def __iter__(self) -> Iterator[ApiResource]:
        """Yield all served resources."""
        return iter(tuple(self._resources.values()))

    def groups(self) -> dict[str, list[str]]:
        """Return versions by group, including the core group, preferred version first."""
        groups: dict[str, list[str]] = {}
        for resource in self:
            versions = groups.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return {group: sorted(versions, key=version_priority) for group, versions in groups.items()}


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sort key: `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, then anything else by name."""
    digits = version[1:] if version.startswith("v") else ""
    for rank, stage in enumerate(("", "beta", "alpha")):
        major, separator, minor = digits.partition(stage) if stage else (digits, "", "0")
        if bool(separator) == bool(stage) and major.isdigit() and minor.isdigit():
            return (rank, -int(major), -int(minor), "")
    return (9, 0, 0, version)
