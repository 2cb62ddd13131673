"""Refuses the edits that Kaito's webhook refuses, also after they were stored without one.

The ControllerRevision in force holds the specification before the edit, and a refused edit makes no
revision, so restoring the field restores everything. Until then that revision is followed, also if
the edit is invalid in itself. If a user has overwritten the annotations or deleted revisions, the
newest readable one is what an edit is judged by, because no accepted edit has changed an immutable
field. If none can be read, an edit is refused only if nodes would be deleted for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.quantity import InvalidQuantity
from controller.apimachinery.validation import Problem
from controller.kaito.api import labels
from controller.kaito.api.fields import INVALID, as_problem
from controller.kaito.api.revisions import WorkspaceRevision, is_revision_hash, stored_specification
from controller.kaito.api.validation import update_errors
from controller.kaito.api.workspace import Workspace
from controller.kaito.workspace.observation import Goal, WorkspaceObservation
from controller.kaito.workspace.watches import REVISIONS
from controller.runtime.plan import Create, Delete, Target, Write

_OTHERWISE = "or delete the workspace and create it again"


def edit_problem(seen: WorkspaceObservation) -> Problem | None:
    """Return why an edit is refused; None if the specification, which is valid, is followed."""
    if _stored_hash(seen.workspace) == seen.valid_goal.hash:
        return None
    for revision in _former_revisions(seen):
        former = stored_specification(revision)
        if former is not None:
            problem = as_problem(tuple(update_errors(seen.valid_goal.spec, former)))
            source = f"restore the fields from ControllerRevision {revision.metadata.name}"
            return problem and _with_remedy(problem, f"the edit has no effect: {source}")
    return _unjudged_problem(seen)


def refused_edit(before: Workspace, old: Goal, new: Goal) -> Problem | None:
    """Return the problem of an edit that was not stored yet; None if it may be tried.

    One of a specification that is not in force is judged by its revision, once it is stored: it may
    restore what was in force.
    """
    if _stored_hash(before) != old.hash:
        return None
    problem = as_problem(tuple(update_errors(new.spec, old.spec)))
    return problem and _with_remedy(problem, "keep the fields as they are")


def workspace_in_force(
    workspace: Workspace, revisions: Iterable[WorkspaceRevision]
) -> Workspace | None:
    """Return a Workspace as it was before a refused edit; None if that is not stored.

    Its revision must give the hash that is stored on the Workspace, in this version too: another
    one would be a change.
    """
    in_force = _stored_hash(workspace)
    for revision in revisions:
        if revision.hash != in_force or stored_specification(revision) is None:
            continue
        parts = mapping(revision.data)
        former = msgspec.structs.replace(
            workspace,
            resource=mapping(parts.get("resource")),
            inference=parts.get("inference"),
            tuning=parts.get("tuning"),
        )
        try:
            return former if is_revision_hash(former, in_force) else None
        except InvalidQuantity:
            return None
    return None


def _stored_hash(workspace: Workspace) -> str:
    return (workspace.metadata.annotations or {}).get(labels.HASH, "")


def _former_revisions(seen: WorkspaceObservation) -> list[WorkspaceRevision]:
    """Return the revisions to compare with: first the one in force, then from the newest on.

    Without the annotation, the one in force is that of the specification if there is one.
    """
    in_force = _stored_hash(seen.workspace) or seen.valid_goal.hash
    return sorted(
        seen.workload.revisions,
        key=lambda each: (each.hash == in_force, each.revision, each.metadata.name),
        reverse=True,
    )


def _with_remedy(problem: Problem, remedy: str) -> Problem:
    return replace(problem, message=f"{problem.message}\n{remedy}, {_OTHERWISE}")


def _unjudged_problem(seen: WorkspaceObservation) -> Problem | None:
    """Return the problem of a specification that asks for other nodes and may be an edit.

    One that asks for the same nodes is followed, and its revision is stored.
    """
    request, template = seen.valid_goal.request, _template_of_nodes(seen)
    if request is None or template in {"", request.template}:
        return None
    message = (
        "no ControllerRevision of the workspace can be read, so it is unknown whether this is an "
        f'edit; its nodes were requested as "{template}" and not as "{request.template}", so they '
        "would be deleted. It has no effect: restore the instance type and the labels, "
        f"{_OTHERWISE}"
    )
    return Problem("resource", message, INVALID)


def _template_of_nodes(seen: WorkspaceObservation) -> str:
    """Return the machine and the labels of existing requests for nodes; empty without any.

    Requests that are not certain to be gone count; a pool of another owner is not deleted (KAI-9).
    """
    own = seen.pool.own_pool if seen.pool is not None else None
    if own is not None and own.template:
        return own.template
    if seen.pool is not None:
        commitment, may_be_there = seen.pool.commitment, own is not None or seen.pool.is_pending
    else:
        commitment = seen.claims.commitment if seen.claims is not None else None
        may_be_there = seen.claims is not None and (seen.claims.claims or seen.claims.pending)
    return commitment.template if commitment is not None and may_be_there else ""


SCOPE: Final = "history"
"""Scope of writes to the history: while the outcome of one is unknown, none is sent."""


def write_history(seen: WorkspaceObservation) -> Iterator[Write]:
    """Create the present revision if it is missing, and delete the oldest if there are too many."""
    history = seen.workload.history
    if history.create is None or seen.workload.has_pending_history:
        return
    namespace = seen.workspace.metadata.namespace
    yield Create(Target(REVISIONS, namespace, history.name, scope=SCOPE), history.create)
    if history.surplus is not None:
        oldest = history.surplus.metadata
        yield Delete(Target(REVISIONS, namespace, oldest.name, scope=SCOPE), oldest.uid)
