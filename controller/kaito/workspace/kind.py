"""The Workspace kind: observing, planning and status for the runtime."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.problem import Problem
from controller.kaito.api.definitions import WORKSPACE_FIELDS, is_left_as_it_is, of_workspaces
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.workspace.edits import refused_edit
from controller.kaito.workspace.observation import Goal, WorkspaceSettings, read_goal, remember
from controller.kaito.workspace.observe import WorkspaceSources, observe_workspace
from controller.kaito.workspace.plan import plan_workspace
from controller.kaito.workspace.status import current_status
from controller.kaito.workspace.watches import watches
from controller.runtime.kind import Kind
from controller.runtime.reconcile.definitions import DefinitionReader, remedy

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.api.workspace import Workspace
    from controller.kaito.lookups import WorkspaceLookups
    from controller.kaito.workspace.observation import WorkspaceObservation
    from controller.runtime.kind import CacheReader, Owned
    from controller.runtime.plan import AnyExternalSource, Failure, Plan, StatusPatch


# The fields on which planning relies: without them claims would be deleted and servers restarted.
#
# A specification that lacks a field asks for something else: its hash differs, so that the server
# or the job would be re-created, and its nodes may differ. The API server silently drops fields
# that its definition lacks, so a Workspace is left unchanged until its definition certainly has all
# of them. It is not written either, because the write would store it without the missing fields.

RELIED_ON: Final = (
    *WORKSPACE_FIELDS,
    *(f"status.{field}" for field in ("conditions", "state", "targetNodeCount")),
)
"""All fields of the specification, which are hashed, and some of the status.

Those of the status decide how many nodes there are and whether the model was served.
"""

_CONSEQUENCE: Final = (
    "Workspaces are left as they are: nothing is created, changed or deleted for them, and what "
    "serves continues"
)


def definition_reader() -> DefinitionReader:
    """Return a reader of what the installed definition of Workspaces lacks."""
    return DefinitionReader(
        WORKSPACES, lambda _schema: RELIED_ON, _CONSEQUENCE, remedy("manta crds --kind workspace")
    )


class WorkspaceKind(Kind["WorkspaceObservation"]):
    """Gives a model its nodes, and runs it there.

    Args:
        settings: settings for all Workspaces.
        process: a name that no other process has; random if empty.
        lookups: asks slow questions in the background; None to ask nothing.
    """

    primary = WORKSPACES
    optional = True

    def __init__(
        self,
        settings: WorkspaceSettings | None = None,
        process: str = "",
        lookups: WorkspaceLookups | None = None,
    ) -> None:
        self.external_source: AnyExternalSource | None = lookups
        self._settings = settings or WorkspaceSettings()
        self.owned: tuple[Owned[Any], ...] = watches(self._settings.options)
        self._sources = WorkspaceSources(
            SpecificationMemo(self._read),
            self._settings,
            definition_reader(),
            of_workspaces(),
            process or secrets.token_hex(4),
            lookups,
        )

    def observe(self, key: str, reads: CacheReader) -> WorkspaceObservation | None:
        """Return everything that the plan depends on; None if the Workspace is gone."""
        return observe_workspace(key, reads, self._sources)

    def problem(self, observation: WorkspaceObservation) -> Problem | None:
        """Return why the specification is refused, None if it is valid."""
        goal = observation.goal
        return goal if isinstance(goal, Problem) else observation.refused

    def edit_problem(self, before: Workspace, after: Workspace) -> Problem | None:
        """Return what an edit changes that must not change; None if it may be tried."""
        goals = [self._read(each) for each in (before, after)]
        valid = [each for each in goals if not isinstance(each, Problem)]
        return refused_edit(before, *valid) if len(valid) == len(goals) else None

    def plan(self, observation: WorkspaceObservation, now: datetime) -> Plan:
        """Return the plan for the Workspace."""
        plan = plan_workspace(observation, now)
        return remember(plan, observation.memory, observation.definition.read)

    def status_after(
        self,
        observation: WorkspaceObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the current status, naming the first failed write.

        That of a deletion stays, and what is left as it is gets none.
        """
        if is_left_as_it_is(observation.workspace, observation.definition):
            return plan.status
        return current_status(observation, now, failures)

    def _read(self, workspace: Workspace) -> Goal | Problem:
        return read_goal(workspace, self._settings.options)
