"""Validation of Workspaces: inference, tuning, and what an edit may change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from controller.apimachinery.custom_object import parse
from controller.apimachinery.quantity import InvalidQuantity
from controller.apimachinery.validation import Problem, malformed
from controller.kaito.api import labels
from controller.kaito.api.fields import (
    EMPTY,
    INVALID,
    FieldError,
    as_problem,
    destination_errors,
    inference_resource_errors,
    instance_type_errors,
    invalid_value,
    missing_field,
    selected_labels,
    source_errors,
    tuning_resource_errors,
    via,
    wrong,
)
from controller.kaito.api.labels import derived_problem, label_problem, subdomain_problem
from controller.kaito.api.options import (
    IMAGE_FAMILIES,
    PERFORMANCE_MODES,
    KaitoOptions,
    Provisioner,
    Runtime,
    image_family,
)
from controller.kaito.api.revisions import revision_hash
from controller.kaito.api.workspace import (
    Adapter,
    DataSource,
    InferenceSpec,
    ResourceSpec,
    TuningSpec,
    Workspace,
    WorkspaceSpec,
)
from controller.kaito.presets.models import Model, find_model, is_deprecated, is_preset_name
from controller.kaito.presets.runtimes import (
    find_tunable_model,
    serves_with_transformers,
    tunable_models,
)

MAX_ADAPTERS: Final = 10
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)


def inference_errors(inference: InferenceSpec, runtime: Runtime) -> Iterator[FieldError]:
    """Yield the errors of a new specification, except those of models that need a look-up."""
    if inference.preset is None and inference.template is None:
        yield missing_field("Preset or Template must be specified")
    if inference.preset is not None and inference.template is not None:
        yield wrong("Preset and Template cannot be set at the same time", "preset", "template")
    if inference.preset is not None:
        name = inference.preset.name
        if not is_preset_name(name):
            shown = name or EMPTY
            yield invalid_value(f"Unsupported inference preset name {shown}", "presetName")
            return
        model = find_model(name)
        if model is not None:
            yield from runtime_errors(model, inference, runtime)
    if len(inference.adapters) > MAX_ADAPTERS:
        limit = f"maximum of {MAX_ADAPTERS} allowed"
        yield wrong(f"Number of Adapters exceeds the maximum limit, {limit}", "adapters")
    for adapter in inference.adapters:
        yield from _adapter_errors(adapter)
    names = Counter(each.source.name if each.source else "" for each in inference.adapters)
    for name in (each for each, number in names.items() if number > 1):
        yield wrong(f"Duplicate adapter source name found: {name or EMPTY}", "adapters")


def _deprecated_errors(inference: InferenceSpec) -> Iterator[FieldError]:
    """Yield the error of a former preset, which Kaito reports beside the resources."""
    name = inference.preset.name.lower() if inference.preset else ""
    if is_deprecated(name) and not is_preset_name(name):
        yield wrong(f"Model {name} is deprecated and no longer supported", "resource.presetName")


def runtime_errors(
    model: Model, inference: InferenceSpec, runtime: Runtime
) -> Iterator[FieldError]:
    """Yield errors of a model or adapters that the runtime cannot serve."""
    if runtime is Runtime.TRANSFORMERS and not serves_with_transformers(model):
        yield wrong(
            f"Runtime validation: model {model.short_name} does not support inference with "
            "Huggingface Transformers runtime",
            "preset.name",
        )
    if runtime is Runtime.VLLM and any(each.strength is not None for each in inference.adapters):
        message = "Runtime validation: vLLM does not support adapter strength"
        yield wrong(message, "adapters.strength")


def _adapter_errors(adapter: Adapter) -> Iterator[FieldError]:
    """Yield errors of an adapter, which Kaito finds only in updates, even its own first write."""
    source = adapter.source
    if source is None:
        yield missing_field("Source")
        return
    yield from via("Adapters", source_errors(source))
    if not source.name:
        yield missing_field("Name of Adapter field must be specified")
    elif problem := subdomain_problem(source.name) or _part_problem(source):
        yield invalid_value(problem, "adapters.source.name")
    if not source.image and source.volume is None:
        message = "Either Image or Volume must be specified for adapter source"
        yield wrong(message, "adapters.source")
    if source.urls:
        yield wrong("URLs are not supported as adapter source", "adapters.source.urls")
    if adapter.strength is not None:
        yield from _strength_errors(source.name, adapter.strength)


def _part_problem(source: DataSource) -> str:
    """Return why no pod can have this adapter, which Kaito admits (KAI-10)."""
    name = source.name
    if source.volume is not None:
        return derived_problem(name, f"adapter-volume-{name}")
    problem = derived_problem(name, f"puller-{name}")
    if problem or not source.image_pull_secrets:
        return problem
    return derived_problem(name, f"docker-config-{name}-inference-adapter")


def _strength_errors(name: str, strength: str) -> Iterator[FieldError]:
    if not _NUMBER.fullmatch(strength):
        why = f'strconv.ParseFloat: parsing "{strength}": invalid syntax'
        yield wrong(f"Invalid strength value for Adapter '{name}': {why}", "adapter")
    elif float(strength) < 0 or float(strength) > 1:
        yield wrong(f"Strength value for Adapter '{name}' must be between 0 and 1", "adapter")


METHODS: Final = ("lora", "qlora")


def tuning_errors(tuning: TuningSpec) -> Iterator[FieldError]:
    """Yield errors of a new specification."""
    if tuning.method.lower() not in METHODS:
        yield invalid_value(tuning.method or EMPTY, "Method", f"must be {' or '.join(METHODS)}")
    if tuning.input is None:
        yield missing_field("Input")
    else:
        source = tuning.input
        yield from via("Input", source_errors(source))
        if source.image and source.image_pull_secrets:
            # Kaito admits names that no part of a pod can have (KAI-10)
            problem = derived_problem(source.name, f"docker-config-{source.name}-tuning-input")
            yield from [invalid_value(problem, "Input.Name")] if problem else []
    if tuning.output is None:
        yield missing_field("Output")
    else:
        yield from via("Output", destination_errors(tuning.output))
    if tuning.preset is None:
        yield missing_field("Preset")
    elif not is_preset_name(tuning.preset.name):
        shown = tuning.preset.name or EMPTY
        yield invalid_value(f"Unsupported tuning preset name {shown}", "presetName")
    elif find_tunable_model(tuning.preset.name) is None:
        # Kaito admits such a model and then fails to tune it for ever
        models = ", ".join(sorted(tunable_models()))
        why = f"{tuning.preset.name} cannot be tuned; the models that can are {models}"
        yield invalid_value(why, "presetName")


MAX_NAME: Final = 54
"""Maximum characters of a name: `<name>-headless` names a service. Kaito retries for ever above."""


def validate_workspace(workspace: Workspace, options: KaitoOptions) -> WorkspaceSpec | Problem:
    """Return the specification if Kaito's rules admit it, else all errors as one problem.

    Rules about nodes and ConfigMaps, which may change at any time, are checked elsewhere.
    """
    try:
        parts = ("resource", "inference", "tuning")
        spec = parse({part: getattr(workspace, part) for part in parts}, WorkspaceSpec)
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
    if spec.inference is None and spec.tuning is None:
        yield wrong("Either Inference or Tuning must be specified, not neither", "spec")
    if spec.inference is not None and spec.tuning is not None:
        yield wrong("Either Inference or Tuning must be specified, but not both", "spec")
    yield from via("spec", instance_type_errors(spec.resource, options))
    yield from _annotation_errors(annotations, options)
    if spec.inference is not None:
        yield from _deprecated_errors(spec.inference)
        yield from via("resource", inference_resource_errors(spec.resource, options))
        runtime = options.runtime(annotations)
        yield from via("inference", inference_errors(spec.inference, runtime))
    if spec.tuning is not None:
        yield from via("resource", tuning_resource_errors(spec.resource))
        yield from via("tuning", tuning_errors(spec.tuning))


def _annotation_errors(
    annotations: Mapping[str, str], options: KaitoOptions
) -> Iterator[FieldError]:
    family = annotations.get(labels.NODE_IMAGE_FAMILY)
    if family is not None and image_family(family) is None:
        known = ", ".join(IMAGE_FAMILIES)
        why = f'unsupported node image family "{family}", supported values are {known}'
        yield invalid_value(why, f'spec.metadata.annotations["{labels.NODE_IMAGE_FAMILY}"]')
    mode = annotations.get(labels.PERFORMANCE_MODE)
    if mode is not None and mode not in PERFORMANCE_MODES:
        known = ", ".join(PERFORMANCE_MODES)
        why = f'"{mode}" is not a valid performance mode; choose one of: {known}'
        yield invalid_value(why, f"metadata.annotations[{labels.PERFORMANCE_MODE}]")
    local = annotations.get(labels.USE_LOCAL_WEIGHTS)
    if local not in {None, "true", "false"}:
        path = f"metadata.annotations[{labels.USE_LOCAL_WEIGHTS}]"
        yield invalid_value(f'"{local}" must be "true" or "false"', path)
    chosen, classes = annotations.get(labels.NODE_CLASS_NAME), options.node_classes.names
    if chosen and options.provisioner is Provisioner.NODE_POOLS and chosen not in classes:
        known = " ".join(classes)
        why = f'"{chosen}" is not a KAITO-managed NodeClass, supported values are [{known}]'
        yield invalid_value(why, f'metadata.annotations["{labels.NODE_CLASS_NAME}"]')


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


_IMMUTABLE: Final = "field is immutable"


def update_errors(spec: WorkspaceSpec, old: WorkspaceSpec) -> Iterator[FieldError]:
    """Yield the errors of an edit of immutable fields, between two valid specifications."""
    if (spec.inference is None) is not (old.inference is None):
        yield wrong("Inference field cannot be toggled once set", "spec.inference")
    if (spec.tuning is None) is not (old.tuning is None):
        yield wrong("Tuning field cannot be toggled once set", "spec.tuning")
    yield from via("resource", _resource_errors(spec.resource, old.resource))
    if spec.inference is not None and old.inference is not None:
        if spec.inference.preset != old.inference.preset:
            yield wrong(_IMMUTABLE, "inference.preset")
        if (spec.inference.template is None) is not (old.inference.template is None):
            yield wrong("field cannot be unset/set if it was set/unset", "inference.template")
    if spec.tuning is not None and old.tuning is not None:
        yield from via("tuning", _tuning_errors(spec.tuning, old.tuning))


def _resource_errors(resource: ResourceSpec, old: ResourceSpec) -> Iterator[FieldError]:
    """Yield the errors of an edit of the nodes. The instance type may be removed (own nodes)."""
    if resource.count is not None and old.count is not None and resource.count != old.count:
        yield wrong(_IMMUTABLE, "count")
    if resource.partition != old.partition:
        yield wrong(_IMMUTABLE, "partition")
    if resource.instance_type and old.instance_type not in {"", resource.instance_type}:
        message = "instanceType cannot be changed once set when node auto-provisioning is enabled"
        yield wrong(message, "instanceType")
    if resource.label_selector != old.label_selector:
        yield from _selector_errors(resource, old)


def _selector_errors(resource: ResourceSpec, old: ResourceSpec) -> Iterator[FieldError]:
    """Yield the errors of an edited selector.

    Kaito compares only what it selects, but requests nodes by `matchLabels` alone. A label that is
    moved there from `matchExpressions` would request other nodes, so it is refused too.
    """
    selected = selected_labels(resource.label_selector)
    before = selected_labels(old.label_selector)
    if selected is None or before is None:
        yield wrong("Only allow matchLabels or 'IN' matchExpression", "labelSelector")
    elif selected != before or resource.node_labels != old.node_labels:
        yield wrong(_IMMUTABLE, "labelSelector")


def _tuning_errors(tuning: TuningSpec, old: TuningSpec) -> Iterator[FieldError]:
    name, before = (each.input.name if each.input else "" for each in (tuning, old))
    if name != before:
        message = "During tuning Name field cannot be changed once set"
        yield invalid_value(message, "Input.Name")
    if tuning.preset != old.preset:
        yield wrong("Preset cannot be changed", "Preset")
    if tuning.method.lower() != old.method.lower():
        yield wrong("Method cannot be changed", "Method")
