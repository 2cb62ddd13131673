"""The facts about a model that is not in the catalogue: looked up once, then kept in an annotation.

A running server and a restarted operator then no longer depend on Hugging Face. A user without
access to Hugging Face may write the annotation instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.api import labels
from controller.kaito.lookups import Answered, ModelMetadata, Unanswered
from controller.kaito.presets import model_id, write_model
from controller.kaito.workspace.config import Blocked

if TYPE_CHECKING:
    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.lookups import LookupState
    from controller.kaito.presets import Model
    from controller.kaito.workspace.goal import Goal
    from controller.kube.objects import ObjectMeta

_PENDING: Final = "ModelMetadataPending"
_OFFLINE: Final = "ModelMetadataOffline"
_REMEDY: Final = (
    f"a Workspace may also give the facts itself, in the annotation {labels.MODEL}, or serve the "
    "model with a template"
)


def wanted_metadata(
    workspace: ObjectMeta, goal: Goal, options: KaitoOptions
) -> ModelMetadata | None:
    """Return the model to be looked up for a valid Workspace; None if there is none."""
    preset = goal.preset
    if preset is None or not goal.lacks_model or not options.hugging_face:
        return None
    secret = preset.preset_options.model_access_secret
    return ModelMetadata(model_id(preset.name), workspace.namespace if secret else "", secret)


def model_annotation(found: LookupState[Model] | None) -> dict[str, str]:
    """Return the annotation with the facts, once they are known."""
    return {labels.MODEL: write_model(found.answer)} if isinstance(found, Answered) else {}


def missing_model(goal: Goal, found: LookupState[Model] | None, options: KaitoOptions) -> Blocked:
    """Return why a model is not known yet.

    Args:
        goal: that lacks it.
        found: by its look-up.
        options: options of the operator.
    """
    name = goal.preset.name if goal.preset else ""
    if not options.hugging_face:
        said = f"model {name} is not in the catalogue, and the operator may not ask Hugging Face"
        return Blocked(_OFFLINE, f"{said}; {_REMEDY}")
    if isinstance(found, Unanswered):
        return Blocked(found.reason, f"{found.message}; the operator tries again; {_REMEDY}")
    return Blocked(_PENDING, f"model {name} is not in the catalogue: asking Hugging Face about it")
