"""The history of a Workspace: a ControllerRevision for each specification that it had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.list_order import in_canonical_order
from controller.kaito.api import labels
from controller.kaito.api.revisions.revision import MAX_REVISIONS, revision_data, revision_name
from controller.kaito.workloads.identity import child
from controller.kaito.workloads.revisions.revision import Revision
from controller.kube.resources import CONTROLLER_REVISIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from controller.kaito.api.revisions.stored_revision import WorkspaceRevision
    from controller.kaito.api.workspace import Workspace
    from controller.kaito.workloads.pods.pod_parts import Body
    from controller.kube.objects import ControllerRevision

_DIGITS: Final = (5, 10, 20, 40)
"""Digits of the hash in a name: Kaito's five, more where that name is taken, such as by a hash that
begins with the same (KAI-27)."""


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """The present revision, and the writes for it.

    Attributes:
        revision: the present one.
        name: name of its ControllerRevision.
        create: its body; None if it exists.
        surplus: the one to delete then; None if there are not too many.
    """

    revision: Revision
    name: str
    create: Body | None = None
    surplus: ControllerRevision | None = None


def next_revision(
    workspace: Workspace,
    hash_: str,
    existing: Sequence[WorkspaceRevision],
    taken: Collection[str] = (),
) -> HistoryStep:
    """Return the revision of the present specification.

    A specification that was there before has its old number again, as in Kaito.

    Args:
        workspace: the object, whose specification is valid.
        hash_: of its specification.
        existing: the revisions that it controls.
        taken: names of revisions of others.
    """
    by_name = {each.metadata.name: each for each in existing}
    names = possible_names(workspace.metadata.name, hash_)
    present = next((by_name[n] for n in names if n in by_name and _has(by_name[n], hash_)), None)

    def is_same(made_from: str) -> bool:
        """Kaito's hash counts each list as written."""
        known = (each.data for each in existing if made_from and each.hash == made_from)
        wanted = in_canonical_order(revision_data(workspace))
        return any(in_canonical_order(data) == wanted for data in known)

    if present is not None:
        return HistoryStep(Revision(present.revision, hash_, is_same), present.metadata.name)
    name = next((n for n in names if n not in by_name and n not in taken), names[-1])
    ordered = sorted(existing, key=lambda each: (each.revision, each.metadata.name))
    number = ordered[-1].revision + 1 if ordered else 1
    return HistoryStep(
        Revision(number, hash_, is_same),
        name,
        create=_body(workspace, name, hash_, number),
        surplus=ordered[0] if len(ordered) > MAX_REVISIONS else None,
    )


def possible_names(workspace_name: str, hash_: str) -> tuple[str, ...]:
    """Return the names that the revision of this hash may have, the shortest first."""
    return tuple(revision_name(workspace_name, hash_, digits) for digits in _DIGITS)


def _has(revision: ControllerRevision, hash_: str) -> bool:
    return (revision.metadata.annotations or {}).get(labels.HASH) == hash_


def _body(workspace: Workspace, name: str, hash_: str, number: int) -> Body:
    meta = workspace.metadata
    own = {labels.REVISION_OF: meta.name}
    marks = {labels.HASH: hash_}
    return {
        **child(CONTROLLER_REVISIONS, meta, name, own_labels=own, annotations=marks),
        "revision": number,
        "data": revision_data(workspace),
    }
