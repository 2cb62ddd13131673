"""Validates a Workspace with Kaito's rules, as far as they concern the Workspace alone.

Rules about nodes and ConfigMaps, which may change at any time, are checked elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from controller.apimachinery.custom_object import undecodable_problem
from controller.apimachinery.problem import Problem
from controller.apimachinery.quantity import InvalidQuantity
from controller.apimachinery.template import malformed
from controller.kaito.api import labels
from controller.kaito.api.names import label_problem
from controller.kaito.api.options import (
    IMAGE_FAMILIES,
    PERFORMANCE_MODES,
    Provisioner,
    image_family,
)
from controller.kaito.api.revisions.revision import revision_hash
from controller.kaito.api.validation.field_errors import (
    INVALID,
    FieldError,
    as_problem,
    invalid_value,
    via,
)
from controller.kaito.api.validation.inference import deprecated_error, inference_errors
from controller.kaito.api.validation.resource import (
    inference_resource_errors,
    instance_type_errors,
    tuning_resource_errors,
)
from controller.kaito.api.validation.tuning import tuning_errors
from controller.kaito.api.workspace import parse_workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import Workspace, WorkspaceSpec

MAX_NAME: Final = 54
"""Maximum characters of a name: `<name>-headless` names a service. Kaito retries for ever above."""


def validate_workspace(workspace: Workspace, options: KaitoOptions) -> WorkspaceSpec | Problem:
    """Return the specification if the object is valid, else all errors as one problem."""
    problem = undecodable_problem(workspace)
    if problem is not None:
        return problem.or_reason(INVALID)
    try:
        spec = parse_workspace(workspace)
        revision_hash(workspace)
    except msgspec.ValidationError as error:
        found = malformed(error, "")
        return Problem(found.field.removeprefix("."), found.message, INVALID)
    except InvalidQuantity as error:
        return Problem("inference.template", str(error), INVALID)
    errors = tuple(_errors(workspace, spec, options))
    return as_problem(errors) or _name_problem(workspace, spec) or spec


def _errors(
    workspace: Workspace, spec: WorkspaceSpec, options: KaitoOptions
) -> Iterator[FieldError]:
    annotations = workspace.metadata.annotations or {}
    problem = label_problem(workspace.metadata.name)
    if problem:
        yield invalid_value(problem, "name")
    yield from via("spec", _purpose_errors(spec))
    yield from via("spec", instance_type_errors(spec.resource, options))
    yield from via("spec", _image_family_errors(annotations))
    yield from _annotation_errors(annotations, options)
    if spec.inference is not None:
        deprecated = deprecated_error(spec.inference)
        if deprecated is not None:
            yield from via("resource", [deprecated])
        yield from via("resource", inference_resource_errors(spec.resource, options))
        runtime = options.runtime(annotations)
        yield from via("inference", inference_errors(spec.inference, runtime))
    if spec.tuning is not None:
        yield from via("resource", tuning_resource_errors(spec.resource))
        yield from via("tuning", tuning_errors(spec.tuning))


def _purpose_errors(spec: WorkspaceSpec) -> Iterator[FieldError]:
    if spec.inference is None and spec.tuning is None:
        yield FieldError("Either Inference or Tuning must be specified, not neither", ("",))
    if spec.inference is not None and spec.tuning is not None:
        yield FieldError("Either Inference or Tuning must be specified, but not both", ("",))


def _image_family_errors(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    value = annotations.get(labels.NODE_IMAGE_FAMILY)
    if value is not None and image_family(value) is None:
        yield invalid_value(
            f'unsupported node image family "{value}", supported values are '
            f"{', '.join(IMAGE_FAMILIES)}",
            f'metadata.annotations["{labels.NODE_IMAGE_FAMILY}"]',
        )


def _annotation_errors(
    annotations: Mapping[str, str], options: KaitoOptions
) -> Iterator[FieldError]:
    mode = annotations.get(labels.PERFORMANCE_MODE)
    if mode is not None and mode not in PERFORMANCE_MODES:
        yield invalid_value(
            f'"{mode}" is not a valid performance mode; choose one of: '
            f"{', '.join(PERFORMANCE_MODES)}",
            f"metadata.annotations[{labels.PERFORMANCE_MODE}]",
        )
    local = annotations.get(labels.USE_LOCAL_WEIGHTS)
    if local not in {None, "true", "false"}:
        yield invalid_value(
            f'"{local}" must be "true" or "false"',
            f"metadata.annotations[{labels.USE_LOCAL_WEIGHTS}]",
        )
    node_class = annotations.get(labels.NODE_CLASS_NAME, "")
    if (
        node_class
        and options.provisioner is Provisioner.NODE_POOLS
        and node_class not in options.node_classes.names
    ):
        yield invalid_value(
            f'"{node_class}" is not a KAITO-managed NodeClass, supported values are '
            f"[{' '.join(options.node_classes.names)}]",
            f'metadata.annotations["{labels.NODE_CLASS_NAME}"]',
        )


def _name_problem(workspace: Workspace, spec: WorkspaceSpec) -> Problem | None:
    """Return the problem of names that Kaito admits but no service can have (KAI-10)."""
    name = workspace.metadata.name
    if spec.inference is None or (len(name) <= MAX_NAME and not name[:1].isdigit()):
        return None
    message = (
        f"must begin with a letter and have at most {MAX_NAME} characters, because services are "
        "named after it: create the workspace under another name"
    )
    return Problem("metadata.name", message, INVALID)
