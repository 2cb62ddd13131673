"""ControllerRevision of a Workspace: a specification that the Workspace has or had."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.apimachinery.custom_object import parse
from controller.kaito.api import labels
from controller.kaito.api.workspace import WorkspaceSpec
from controller.kube.objects import ControllerRevision


class WorkspaceRevision(ControllerRevision, frozen=True):
    """A ControllerRevision with its data, which are plain: `stored_specification` reads them."""

    data: Any = None

    @property
    def hash(self) -> str:
        """The hash of its specification; empty if it is not marked with one."""
        return (self.metadata.annotations or {}).get(labels.HASH, "")


def stored_specification(revision: WorkspaceRevision) -> WorkspaceSpec | None:
    """Return the specification that it holds; None if it cannot be read."""
    try:
        spec = parse(revision.data, WorkspaceSpec)
    except (msgspec.ValidationError, RecursionError):
        return None
    return spec if spec.inference is not None or spec.tuning is not None else None
