"""The model that a Workspace tunes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.api.names import derived_problem
from controller.kaito.api.validation.field_errors import (
    EMPTY,
    FieldError,
    invalid_value,
    missing_field,
    via,
)
from controller.kaito.api.validation.sources import (
    destination_errors,
    source_errors,
)
from controller.kaito.presets import find_tunable_model, is_preset_name, tunable_models

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.api.workspace import DataSource, TuningSpec

METHODS: Final = ("lora", "qlora")


def tuning_errors(tuning: TuningSpec) -> Iterator[FieldError]:
    """Yield errors of a new specification."""
    if tuning.method.lower() not in METHODS:
        yield invalid_value(tuning.method or EMPTY, "Method", f"must be {' or '.join(METHODS)}")
    if tuning.input is None:
        yield missing_field("Input")
    else:
        yield from via("Input", source_errors(tuning.input))
        yield from via("Input", _part_errors(tuning.input))
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
        yield _not_tunable(tuning.preset.name)


def _part_errors(source: DataSource) -> Iterator[FieldError]:
    """Yield the error of a name that Kaito admits and no pod can have (KAI-10)."""
    if source.image and source.image_pull_secrets:
        problem = derived_problem(source.name, f"docker-config-{source.name}-tuning-input")
        if problem:
            yield invalid_value(problem, "Name")


def _not_tunable(name: str) -> FieldError:
    """Return the error of a model that Kaito admits and then fails to tune for ever."""
    models = ", ".join(sorted(tunable_models()))
    return invalid_value(f"{name} cannot be tuned; the models that can are {models}", "presetName")
