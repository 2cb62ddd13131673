"""`metadata.managedFields`: which manager owns which fields, updated on every write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.apimachinery.patches.json_patch import same_json
from controller.devcluster.apiserver.apply.fields import (
    Path,
    from_fields_v1,
    leaves,
    to_fields_v1,
)
from controller.devcluster.apiserver.jsondata import entries

if TYPE_CHECKING:
    from controller.devcluster.apiserver.apply.structure import Structure
    from controller.devcluster.apiserver.jsondata import Json

BEFORE = "before-first-apply"


@dataclass(slots=True)
class FieldOwner:
    """One entry.

    Attributes:
        manager: name of the manager.
        operation: `Apply` or `Update`.
        api_version: version of the object that it wrote.
        subresource: `status` or empty.
        time: time when it last changed its fields.
        paths: the fields that it owns.
    """

    manager: str
    operation: str
    api_version: str
    subresource: str = ""
    time: str = ""
    paths: set[Path] = field(default_factory=set[Path])

    def is_same(self, other: FieldOwner) -> bool:
        """Return whether both are entries of the same manager in the same role."""
        return (self.manager, self.operation, self.api_version, self.subresource) == (
            other.manager,
            other.operation,
            other.api_version,
            other.subresource,
        )

    def entry(self) -> Json:
        """Return the entry for `managedFields`."""
        entry: Json = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(self.paths),
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def owners_of(object_: Json) -> list[FieldOwner]:
    """Return all entries of an object."""
    return [
        FieldOwner(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
            entry.get("time", ""),
            from_fields_v1(entry.get("fieldsV1") or {}),
        )
        for entry in entries(object_["metadata"], "managedFields")
    ]


def write_owners(object_: Json, owners: list[FieldOwner]) -> None:
    """Store the entries of managers that still own a field, in place."""
    entries_ = [owner.entry() for owner in owners if owner.paths]
    if entries_:
        object_["metadata"]["managedFields"] = entries_
    else:
        object_["metadata"].pop("managedFields", None)


def track_update(new: Json, old: Json, writer: FieldOwner, structure: Structure) -> None:
    """Assign the fields that an ordinary write changed to its writer, in place.

    Objects that are not tracked stay untracked. A writer may change the entries themselves.
    """
    owners = owners_of(new) if entries(old["metadata"], "managedFields") else []
    owners = owners or owners_of(old)
    if not owners:
        new["metadata"].pop("managedFields", None)
        return
    before, after = leaves(old, structure), leaves(new, structure)
    changed = {
        path
        for path, value in after.items()
        if path not in before or not same_json(before[path], value)
    }
    gone = before.keys() - after.keys()
    mine = next((owner for owner in owners if owner.is_same(writer)), writer)
    for owner in owners:
        owner.paths -= gone
        if owner is not mine:
            owner.paths -= changed
    if changed:
        mine.paths |= changed
        mine.time = writer.time
    if mine is writer:
        owners.append(mine)
    write_owners(new, owners)
