"""The Workspace kind: observing, planning and status for the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.memo import IdentityMemo
from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.node import NODES
from controller.kaito.api.nodeclaim import NODE_CLAIMS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.provisioning.selection import (
    BY_LABEL,
    BY_SELECTOR,
    BY_WORKSPACE,
    looked_up_by,
    selectable_by,
    workspace_keys,
)
from controller.kaito.workspace.goal import Goal, read_goal
from controller.kaito.workspace.observe import WorkspaceSources, observe_workspace
from controller.kaito.workspace.plan import plan_workspace
from controller.kaito.workspace.settings import WorkspaceSettings
from controller.kaito.workspace.status.current_status import current_status
from controller.runtime.reconcile.kind import Owned, References

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.api.workspace import Workspace
    from controller.kaito.workspace.observation import WorkspaceObservation
    from controller.kube.resources import Resource
    from controller.runtime.reconcile.kind import CacheReader
    from controller.runtime.reconcile.plan import Failure, Plan, StatusPatch

_CLAIMS = Owned(
    NODE_CLAIMS,
    label_selector=labels.WORKSPACE,
    indexes={BY_WORKSPACE: workspace_keys},
    also_enqueues=workspace_keys,
    optional=True,
)
_CLAIMED_NODES = Owned(
    NODES,
    label_selector=labels.WORKSPACE,
    indexes={BY_WORKSPACE: workspace_keys},
    also_enqueues=workspace_keys,
)
_OWN_NODES = Owned(
    NODES,
    indexes={BY_LABEL: selectable_by},
    references=References(BY_SELECTOR, looked_up_by, selectable_by),
)
"""Nodes of one's own may have any labels, so that all nodes are watched."""


class WorkspaceKind:
    """Gives a model its nodes, and runs it there.

    Args:
        settings: for all Workspaces.
    """

    name = "workspace-controller"
    primary: Resource[Any] = WORKSPACES
    creates: tuple[Resource[Any], ...] = ()
    external_source = None
    optional = True

    def __init__(self, settings: WorkspaceSettings | None = None) -> None:
        self._settings = settings or WorkspaceSettings()
        self._sources = WorkspaceSources(IdentityMemo(self._read), self._settings)

    @property
    def owned(self) -> tuple[Owned[Any], ...]:
        """What is watched depends on where nodes come from."""
        if self._settings.options.has_own_nodes:
            return (_OWN_NODES,)
        return (_CLAIMS, _CLAIMED_NODES)

    def observe(self, key: str, reads: CacheReader) -> WorkspaceObservation | None:
        """Everything the plan depends on; None if the Workspace is gone."""
        return observe_workspace(key, reads, self._sources)

    def problem(self, observation: WorkspaceObservation) -> Problem | None:
        """Why the specification is refused, None if it is valid."""
        return observation.goal if isinstance(observation.goal, Problem) else None

    def plan(self, observation: WorkspaceObservation, now: datetime) -> Plan:
        """The plan for the Workspace."""
        return plan_workspace(observation, now)

    def status_after(
        self,
        observation: WorkspaceObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """The current status, naming the first failed write; that of a deletion stays."""
        if observation.workspace.metadata.terminating:
            return plan.status
        return current_status(observation, now, failures)

    def _read(self, workspace: Workspace) -> Goal | Problem:
        return read_goal(workspace, self._settings.options)
