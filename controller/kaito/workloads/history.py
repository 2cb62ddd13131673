"""The history of a Workspace: a ControllerRevision for each specification that it had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.kaito.api import labels
from controller.kaito.api.revision import MAX_REVISIONS, revision_data, revision_name
from controller.kaito.workloads.identity import child
from controller.kaito.workloads.revision import Revision
from controller.kube.resources import CONTROLLER_REVISIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kaito.api.workspace import Workspace
    from controller.kaito.workloads.pod_parts import Body
    from controller.kube.objects import ControllerRevision

_DIGITS: Final = (5, 10, 20, 40)
"""Digits of the hash in a name: Kaito's five, more where another hash begins with the same
(KAI-27)."""


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """The present revision, and what has to be written for it.

    Attributes:
        revision: the present one.
        name: of its ControllerRevision.
        create: its body; None if it exists.
        surplus: the one to delete then; None if there are not too many.
    """

    revision: Revision
    name: str
    create: Body | None = None
    surplus: ControllerRevision | None = None


def next_revision(
    workspace: Workspace, hash_: str, existing: Sequence[ControllerRevision]
) -> HistoryStep:
    """The revision of the present specification.

    A specification that was there before has its old number again, as in Kaito.

    Args:
        workspace: the object, whose specification is valid.
        hash_: of its specification.
        existing: the revisions that it controls.
    """
    by_name = {each.metadata.name: each for each in existing}
    name = _name(workspace.metadata.name, hash_, by_name)
    present = by_name.get(name)
    if present is not None:
        return HistoryStep(Revision(present.revision, hash_), name)
    ordered = sorted(existing, key=lambda each: (each.revision, each.metadata.name))
    number = ordered[-1].revision + 1 if ordered else 1
    return HistoryStep(
        Revision(number, hash_),
        name,
        create=_body(workspace, name, hash_, number),
        surplus=ordered[0] if len(ordered) > MAX_REVISIONS else None,
    )


def _name(workspace_name: str, hash_: str, by_name: dict[str, ControllerRevision]) -> str:
    names = [revision_name(workspace_name, hash_, digits) for digits in _DIGITS]
    return next((name for name in names if _is_free(by_name.get(name), hash_)), names[-1])


def _is_free(taken: ControllerRevision | None, hash_: str) -> bool:
    return taken is None or (taken.metadata.annotations or {}).get(labels.HASH) == hash_


def _body(workspace: Workspace, name: str, hash_: str, number: int) -> Body:
    meta = workspace.metadata
    own = {labels.REVISION_OF: meta.name}
    marks = {labels.HASH: hash_}
    return {
        **child(CONTROLLER_REVISIONS, meta, name, own_labels=own, annotations=marks),
        "revision": number,
        "data": revision_data(workspace),
    }
