"""The facts about a model that is not in the catalogue, as a Workspace keeps them."""

from __future__ import annotations

import msgspec

from controller.kaito.presets.catalogue import model_id
from controller.kaito.presets.metadata import NotServable, check_model
from controller.kaito.presets.model import Model


def write_model(model: Model) -> str:
    """Return the text of an annotation; what has its default is left out."""
    facts = msgspec.to_builtins(model)
    defaults = msgspec.to_builtins(Model(name="", weights=""))
    changed = {key: value for key, value in facts.items() if value != defaults[key]}
    return msgspec.json.encode(changed, order="sorted").decode()


def read_model(text: str | None, preset: str) -> Model | None:
    """Return the model of a preset; None if the text is about another one or implausible."""
    if not text:
        return None
    try:
        found = msgspec.json.decode(text, type=Model)
        check_model(found)
    except (msgspec.MsgspecError, NotServable):
        return None
    return found if found.repository == model_id(preset) else None
