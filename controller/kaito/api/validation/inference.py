"""The model that a Workspace serves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controller.kaito.api.names import derived_problem, subdomain_problem
from controller.kaito.api.options import Runtime
from controller.kaito.api.validation.field_errors import (
    EMPTY,
    FieldError,
    invalid_value,
    missing_field,
    via,
)
from controller.kaito.api.validation.sources import source_errors
from controller.kaito.presets import (
    find_model,
    is_deprecated,
    is_preset_name,
    serves_with_transformers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controller.kaito.api.workspace import Adapter, DataSource, InferenceSpec
    from controller.kaito.presets import Model

MAX_ADAPTERS: Final = 10
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)


def inference_errors(inference: InferenceSpec, runtime: Runtime) -> Iterator[FieldError]:
    """Yield the errors of a new specification, except those of models that need a look-up."""
    if inference.preset is None and inference.template is None:
        yield missing_field("Preset or Template must be specified")
    if inference.preset is not None and inference.template is not None:
        yield FieldError(
            "Preset and Template cannot be set at the same time", ("preset", "template")
        )
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
        yield FieldError(
            f"Number of Adapters exceeds the maximum limit, maximum of {MAX_ADAPTERS} allowed",
            ("adapters",),
        )
    for adapter in inference.adapters:
        yield from _adapter_errors(adapter)
    yield from _duplicate_adapter_errors(inference.adapters)


def deprecated_error(inference: InferenceSpec) -> FieldError | None:
    """Return the error of a former preset, which Kaito reports beside the resources."""
    name = inference.preset.name.lower() if inference.preset else ""
    if is_preset_name(name) or not is_deprecated(name):
        return None
    return FieldError(f"Model {name} is deprecated and no longer supported", ("presetName",))


def runtime_errors(
    model: Model, inference: InferenceSpec, runtime: Runtime
) -> Iterator[FieldError]:
    """Yield errors of a model or adapters that the runtime cannot serve."""
    if runtime is Runtime.TRANSFORMERS and not serves_with_transformers(model):
        yield FieldError(
            f"Runtime validation: model {model.short_name} does not support inference with "
            "Huggingface Transformers runtime",
            ("preset.name",),
        )
    if runtime is Runtime.VLLM and any(each.strength is not None for each in inference.adapters):
        yield FieldError(
            "Runtime validation: vLLM does not support adapter strength", ("adapters.strength",)
        )


def _duplicate_adapter_errors(adapters: Sequence[Adapter]) -> Iterator[FieldError]:
    """Yield names that two adapters share."""
    seen: set[str] = set()
    for adapter in adapters:
        name = adapter.source.name if adapter.source else ""
        if name in seen:
            shown = name or EMPTY
            yield FieldError(f"Duplicate adapter source name found: {shown}", ("adapters",))
        seen.add(name)


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
        yield FieldError(
            "Either Image or Volume must be specified for adapter source", ("adapters.source",)
        )
    if source.urls:
        yield FieldError("URLs are not supported as adapter source", ("adapters.source.urls",))
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


def _strength_errors(name: str, strength: str | None) -> Iterator[FieldError]:
    if strength is None:
        return
    if not _NUMBER.fullmatch(strength):
        yield FieldError(
            f"Invalid strength value for Adapter '{name}': strconv.ParseFloat: parsing "
            f'"{strength}": invalid syntax',
            ("adapter",),
        )
    elif float(strength) < 0 or float(strength) > 1:
        yield FieldError(
            f"Strength value for Adapter '{name}' must be between 0 and 1", ("adapter",)
        )
