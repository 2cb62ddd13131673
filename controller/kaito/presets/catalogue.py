"""Finds the model that the name of a preset stands for. Names compare without case."""

from __future__ import annotations

from functools import cache

from controller.kaito.presets.model import Model
from controller.kaito.presets.tables import Row, read_table


class _Names(Row, frozen=True):
    """`preset_names.yaml`."""

    aliases: dict[str, str]
    deprecated: tuple[str, ...]


def is_preset_name(preset: str) -> bool:
    """Return whether the name may stand for a model: a short name, or any `organisation/model`."""
    organisation, slash, model = preset.partition("/")
    return preset.lower() in _names().aliases or bool(organisation and slash and model)


def is_deprecated(preset: str) -> bool:
    """Return whether the name was that of a preset once."""
    return preset.lower() in _names().deprecated


def model_id(preset: str) -> str:
    """Return the model's id on Hugging Face in lower case; a name that is not short is one."""
    name = preset.lower()
    return _names().aliases.get(name, name).lower()


def find_model(preset: str) -> Model | None:
    """Return the model, if it needs no look-up."""
    return catalogue().get(model_id(preset))


@cache
def catalogue() -> dict[str, Model]:
    """Return the models that need no look-up, by their ids in lower case."""
    models = read_table("models.yaml", tuple[Model, ...])
    return {model.repository: model for model in models}


@cache
def _names() -> _Names:
    return read_table("preset_names.yaml", _Names)
