"""Names, labels and owners of the objects that a Workspace creates."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import in_canonical_order
from controller.apimachinery.ownership import owner_reference
from controller.kaito.api import labels
from controller.kaito.api.revisions import (
    MAX_REVISIONS,
    WorkspaceRevision,
    revision_data,
    revision_name,
)
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kube.resources import CONTROLLER_REVISIONS, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from controller.kaito.workloads.pods import Body
    from controller.kube.objects import ControllerRevision, ObjectMeta


_INHERITED = (
    labels.CREATED_BY_INFERENCE_SET,
    labels.CREATED_BY_MULTI_ROLE,
    labels.INFERENCE_ROLE,
)


def child(
    resource: Resource[Any],
    workspace: ObjectMeta,
    name: str,
    *,
    own_labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Body:
    """Return the head of a body: kind, names, and the Workspace as its controller."""
    metadata: Body = {"name": name, "namespace": workspace.namespace}
    if own_labels:
        metadata["labels"] = dict(own_labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    metadata["ownerReferences"] = [owner_reference(WORKSPACES, workspace)]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def pod_labels(workspace: ObjectMeta) -> dict[str, str]:
    """Return the labels of the pods, which also select them."""
    inherited = workspace.labels or {}
    found = {key: inherited[key] for key in _INHERITED if key in inherited}
    return {labels.WORKSPACE: workspace.name, **found}


def headless_service_name(workspace_name: str) -> str:
    """Return the service that gives pods their names in the cluster's DNS."""
    return f"{workspace_name}-headless"


def leader_host(workspace: ObjectMeta) -> str:
    """Return the name of the first pod in the cluster's DNS."""
    name, namespace = workspace.name, workspace.namespace
    return f"{name}-0.{headless_service_name(name)}.{namespace}.svc.cluster.local"


# The revision that a workload is made from, and whether it is still current.
#
# Kaito compares only numbers, so a history that begins anew replaces every tuning job. The hash
# beside the number shows that nothing has changed.


class RevisionState(Enum):
    """The relation of a workload to the present revision."""

    PRESENT = "made from it"
    UNMARKED = "made from the same specification, or of unknown origin: only the mark is missing"
    OUTDATED = "made from another specification"


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a Workspace.

    Attributes:
        number: number of its ControllerRevision.
        hash: hash of the specification.
        is_same: returns whether a hash is that of a specification which differs from this one only
            in the order of lists, where that has no meaning.
    """

    number: int
    hash: str
    is_same: Callable[[str], bool] = field(default=lambda _: False, repr=False, compare=False)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of a workload that is made from it."""
        return {labels.REVISION: str(self.number), labels.HASH: self.hash}

    def state_of(self, workload: ObjectMeta) -> RevisionState:
        """Return whether a workload is made from this revision.

        A workload without a number is taken for up to date, so that taking over restarts nothing.
        """
        found = workload.annotations or {}
        number = found.get(labels.REVISION)
        if number == str(self.number):
            return RevisionState.PRESENT
        made_from = found.get(labels.HASH, "")
        if number is None or made_from == self.hash or self.is_same(made_from):
            return RevisionState.UNMARKED
        return RevisionState.OUTDATED


# The history of a Workspace: a ControllerRevision for each specification that it had.

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
