"""The input of an InferenceSet's plan: the set and its Workspaces at one moment, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import status_of
from controller.apimachinery.problem import Problem
from controller.kaito.inferenceset.settings import InferenceSetSettings
from controller.runtime.reconcile.definitions.installed_definition import InstalledDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.api.inferenceset import InferenceSet, InferenceSetSpec
    from controller.kaito.api.workspace import Workspace
    from controller.kaito.inferenceset.replicas import Replica
    from controller.runtime.kind import CreateError

SCOPE: Final = "workspaces"
"""Scope of writes to Workspaces. They are counted together, so while the outcome of one write is
unknown, none is created, changed or deleted."""


@dataclass(frozen=True, slots=True)
class MissingReplicas:
    """The replicas that one plan is to create.

    Attributes:
        free: names that may be created.
        taken: names that are not free; the values complete the sentence "there is a Workspace of
            this name that ...".
        refused: errors of refused creates, by name of the Workspace.
    """

    free: tuple[str, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict[str, str])
    refused: Mapping[str, CreateError] = field(default_factory=dict[str, "CreateError"])


@dataclass(frozen=True, slots=True)
class InferenceSetObservation:
    """An InferenceSet and its Workspaces.

    Attributes:
        inference_set: the set.
        goal: its specification, or the `Problem` that makes it invalid.
        settings: settings of the controller.
        workspaces: its Workspaces, including terminating ones; None if the API server has no such
            resource.
        replicas: the same, each as its status shows it.
        missing: replicas that are to be created.
        unreadable: why Workspaces cannot be decoded, by name.
        has_pending_writes: whether the outcome of a write to a Workspace is unknown.
        definition: what the installed definitions of sets and Workspaces lack.
        consistency_warnings: sentences about writes that the cache contradicts.
        unknown_fields: a sentence that names the unknown fields of its template; may be empty.
    """

    inference_set: InferenceSet
    goal: InferenceSetSpec | Problem
    settings: InferenceSetSettings = field(default_factory=InferenceSetSettings)
    workspaces: tuple[Workspace, ...] | None = ()
    replicas: tuple[Replica, ...] = ()
    missing: MissingReplicas = field(default_factory=MissingReplicas)
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])
    has_pending_writes: bool = False
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)
    consistency_warnings: tuple[str, ...] = ()
    unknown_fields: str = ""

    @property
    def spec(self) -> InferenceSetSpec:
        """The specification of a set that is known to be valid."""
        assert not isinstance(self.goal, Problem)
        return self.goal

    @property
    def status(self) -> dict[str, Any]:
        """The present status."""
        return status_of(self.inference_set)

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The present conditions."""
        return self.status.get("conditions") or []
