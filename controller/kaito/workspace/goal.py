"""The goal of a Workspace, read from its specification once for each state of the object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.options import Provisioner
from controller.kaito.api.revisions.revision import is_revision_hash, revision_hash
from controller.kaito.api.validation.field_errors import INVALID, message_of, via
from controller.kaito.api.validation.inference import runtime_errors
from controller.kaito.api.validation.workspace import validate_workspace
from controller.kaito.presets import DISK_OF_UNKNOWN_SIZE, disk_request, find_model, read_model
from controller.kaito.provisioning.node_claim import can_claim, node_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.kaito.api.options import KaitoOptions, Runtime
    from controller.kaito.api.validation.field_errors import FieldError
    from controller.kaito.api.workspace import Preset, Workspace, WorkspaceSpec
    from controller.kaito.presets import Model
    from controller.kaito.provisioning.node_claim import NodeRequest


@dataclass(frozen=True, slots=True)
class Goal:
    """The user's goal, read from a valid specification.

    Attributes:
        spec: the specification.
        runtime: the software that serves the model.
        model: the model to serve or tune; None for a template, or if unknown. A model that is not
            in the catalogue is known once an annotation has the facts about it.
        request: the nodes to provision; None if there are none.
        hash: hash of the specification, which distinguishes its revisions.
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

    @property
    def lacks_model(self) -> bool:
        """True if a model is to be served about which nothing is known yet."""
        return self.spec.tuning is None and self.preset is not None and self.model is None


def read_goal(workspace: Workspace, options: KaitoOptions) -> Goal | Problem:
    """Return the goal of a Workspace, or the problem that makes it invalid."""
    spec = validate_workspace(workspace, options)
    if isinstance(spec, Problem):
        return spec
    problem = _provisioner_problem(options)
    if problem is not None:
        return problem
    annotations = workspace.metadata.annotations or {}
    model = _served_model(spec, annotations)
    runtime = options.runtime(annotations)
    errors = tuple(_runtime_errors(spec, model, runtime))
    if errors:
        return Problem("inference", message_of(errors), INVALID)
    request = None
    if not options.has_own_nodes:
        request = node_request(
            spec.resource.instance_type,
            spec.resource.node_labels,
            disk_request(model) if model and spec.inference else DISK_OF_UNKNOWN_SIZE,
            annotations,
            options,
        )
    return Goal(spec, runtime, model, request, _hash(workspace))


def _provisioner_problem(options: KaitoOptions) -> Problem | None:
    """Return the problem of settings with which no Workspace can get nodes, else None."""
    if options.provisioner is not Provisioner.NODE_CLAIMS or can_claim(options.cloud):
        return None
    message = f"nodes cannot be claimed on {options.cloud.value}; bring your own nodes"
    return Problem("resource", message, INVALID)


def _hash(workspace: Workspace) -> str:
    """Return the stored hash while any version's hash of the specification equals it (KAI-2)."""
    stored = (workspace.metadata.annotations or {}).get(labels.HASH, "")
    return stored if stored and is_revision_hash(workspace, stored) else revision_hash(workspace)


def _served_model(spec: WorkspaceSpec, annotations: Mapping[str, str]) -> Model | None:
    purpose = spec.tuning or spec.inference
    if purpose is None or purpose.preset is None:
        return None
    name = purpose.preset.name
    return find_model(name) or read_model(annotations.get(labels.MODEL), name)


def _runtime_errors(
    spec: WorkspaceSpec, model: Model | None, runtime: Runtime
) -> Iterator[FieldError]:
    """Yield errors of a model that is not in the catalogue, which validation does not judge."""
    if spec.inference is not None and model is not None:
        yield from via("inference", runtime_errors(model, spec.inference, runtime))
