"""The behaviour of a kind: defaults, validation, allowed changes, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from controller.devcluster.apiserver.apply.list_keys import invalid_list_keys
from controller.devcluster.apiserver.apply.structure import TypedStructure
from controller.devcluster.apiserver.fields.typed import DecodeError, decode_kind
from controller.devcluster.apiserver.meta import (
    is_subdomain,
    validate_core_finalizers,
    validate_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.devcluster.apiserver.apply.fields import Path
    from controller.devcluster.apiserver.apply.structure import Structure
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.protocol.status import StatusCause

SYSTEM_PARTS = frozenset({"apiVersion", "kind", "metadata"})


class Strategy:
    """Behaviour of an ordinary kind; special kinds override what they need.

    Attributes:
        has_status: whether `status` is written by the status subresource only.
        counts_generations: whether changes outside metadata and status bump the generation.
        is_graceful: whether deletion is noted in the object first, even if it then goes at once.
        returns_deleted: whether DELETE answers with the object instead of a Status.
        unconditional_update: whether a PUT may come without a resourceVersion.
        creates_on_update: whether a PUT may create.
        orphans_by_default: whether deletion without a policy orphans the dependents.
        deletion_warning: warning when no deletion policy is given.
        status_keeps_metadata: whether a status write leaves all metadata unchanged.
        standard_finalizers: whether finalizers without a prefix must be standard ones.
        server_defaulted: fields that the server fills in, which their creator does not own.
        typed: whether the kind is in the table of types.
        name_rule: returns the problems of a name.
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
