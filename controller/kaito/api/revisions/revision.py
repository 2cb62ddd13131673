"""The revision of a Workspace: a hash of what its workload is made from, equal to Kaito's.

A Workspace whose hash equals the one that Kaito stored is taken over without touching its workload.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.go_encoding import go_json
from controller.kaito.api.revisions.go_types import kaito_writer, old_kaito_writer

if TYPE_CHECKING:
    from controller.kaito.api.revisions.go_types import GoWriter
    from controller.kaito.api.workspace import Workspace

MAX_REVISIONS: Final = 10
"""Maximum revisions to keep; beyond it the oldest is deleted."""

_SUFFIX_LENGTH: Final = 5


def revision_hash(workspace: Workspace) -> str:
    """Return the hash that present versions of Kaito store.

    Raises:
        controller.apimachinery.quantity.InvalidQuantity: a quantity is malformed; not raised for a
            valid specification.
    """
    return _hash(_parts(workspace, kaito_writer()))


def is_revision_hash(workspace: Workspace, stored: str) -> bool:
    """Return whether a present or an old version stored this hash for the specification.

    Raises:
        controller.apimachinery.quantity.InvalidQuantity: as above.
    """
    writers = (kaito_writer(), old_kaito_writer())
    return any(_hash(_parts(workspace, writer)) == stored for writer in writers)


def revision_name(workspace_name: str, hash_: str, digits: int = _SUFFIX_LENGTH) -> str:
    """Return the name of the ControllerRevision, with so many digits of the hash."""
    return f"{workspace_name}-{hash_[:digits]}"


def revision_data(workspace: Workspace) -> dict[str, Any]:
    """Return `data` of the ControllerRevision.

    Raises:
        controller.apimachinery.quantity.InvalidQuantity: as above.
    """
    parts = _parts(workspace, kaito_writer())
    return {name: parts[name] for name in sorted(parts)}


def _parts(workspace: Workspace, writer: GoWriter) -> dict[str, Any]:
    """Return the JSON that Go writes for each part, in the order in which they are hashed."""
    return {
        "resource": writer.write("ResourceSpec", workspace.resource),
        "inference": writer.write("*InferenceSpec", workspace.inference),
        "tuning": writer.write("*TuningSpec", workspace.tuning),
    }


def _hash(parts: dict[str, Any]) -> str:
    lines = [go_json(part, sort_keys=False) + "\n" for part in parts.values()]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
