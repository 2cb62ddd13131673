"""The wishes of a Workspace, read from its specification once for each state of the object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.field_errors import INVALID
from controller.kaito.api.options import Provisioner
from controller.kaito.api.revision import is_revision_hash, revision_hash
from controller.kaito.api.validation.workspace import validate_workspace
from controller.kaito.presets import DISK_OF_UNKNOWN_SIZE, disk_request, find_model
from controller.kaito.provisioning.node_claim import can_claim, node_request

if TYPE_CHECKING:
    from controller.kaito.api.options import KaitoOptions, Runtime
    from controller.kaito.api.workspace import Preset, Workspace, WorkspaceSpec
    from controller.kaito.presets import Model
    from controller.kaito.provisioning.node_claim import NodeRequest


@dataclass(frozen=True, slots=True)
class Goal:
    """The user's wishes, read from a valid specification.

    Attributes:
        spec: the specification.
        runtime: what serves the model.
        model: to be served or tuned; None for a template, or if it is not known.
        request: the nodes to be provisioned; None if none are.
        hash: of the specification, by which its revisions are told apart.
    """

    spec: WorkspaceSpec
    runtime: Runtime
    model: Model | None
    request: NodeRequest | None
    hash: str = ""

    @property
    def preset(self) -> Preset | None:
        """The preset of the model, None for a template."""
        purpose = self.spec.tuning or self.spec.inference
        return purpose.preset if purpose else None


def read_goal(workspace: Workspace, options: KaitoOptions) -> Goal | Problem:
    """The goal of a Workspace, or the problem that makes it invalid."""
    spec = validate_workspace(workspace, options)
    if isinstance(spec, Problem):
        return spec
    problem = _provisioner_problem(options)
    if problem is not None:
        return problem
    annotations = workspace.metadata.annotations or {}
    model = _served_model(spec)
    request = None
    if not options.has_own_nodes:
        request = node_request(
            spec.resource.instance_type,
            spec.resource.node_labels,
            disk_request(model) if model and spec.inference else DISK_OF_UNKNOWN_SIZE,
            annotations,
            options,
        )
    return Goal(spec, options.runtime(annotations), model, request, _hash(workspace))


def _provisioner_problem(options: KaitoOptions) -> Problem | None:
    """The problem of an operator whose settings give no Workspace nodes; None if they do."""
    if options.provisioner is not Provisioner.NODE_CLAIMS or can_claim(options.cloud):
        return None
    message = f"nodes cannot be claimed on {options.cloud.value}; bring your own nodes"
    return Problem("resource", message, INVALID)


def _hash(workspace: Workspace) -> str:
    """The stored hash as long as it is that of the specification, by whichever version (KAI-2)."""
    stored = (workspace.metadata.annotations or {}).get(labels.HASH, "")
    return stored if stored and is_revision_hash(workspace, stored) else revision_hash(workspace)


def _served_model(spec: WorkspaceSpec) -> Model | None:
    purpose = spec.tuning or spec.inference
    return find_model(purpose.preset.name) if purpose and purpose.preset else None
