"""The ConfigMap with the options of a workload, which may come later than the Workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.api import labels
from controller.kaito.api.config_maps import (
    inference_config_errors,
    longest_context,
    missing_config_error,
    training_config_errors,
)
from controller.kaito.api.fields import INVALID, FieldError, message_of
from controller.kaito.api.messages import Cause
from controller.kaito.lookups.background import Answered, LookupState, Unanswered
from controller.kaito.lookups.huggingface import ModelMetadata
from controller.kaito.presets.models import Model, model_id, write_model
from controller.kaito.workloads.tuning import config_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.workspace.observation import Goal
    from controller.kube.objects import ObjectMeta


MISSING = "ConfigMapNotFound"


def wanted_config(goal: Goal) -> str:
    """Return the name of the ConfigMap that the workload needs; empty if it needs none."""
    if goal.spec.tuning is not None:
        return config_name(goal.spec.tuning)
    return goal.spec.inference.config if goal.spec.inference is not None else ""


def context_of(config: Mapping[str, str] | None) -> int | None:
    """Return the longest context that the options set, in tokens; None if they set none."""
    return longest_context(config) if config is not None else None


def config_problem(goal: Goal, config: Mapping[str, str] | None, namespace: str) -> Cause | None:
    """Return the problem of the options, None if they have none.

    Args:
        goal: goal of the Workspace.
        config: the options of its ConfigMap, None if that does not exist.
        namespace: namespace of both.
    """
    name, tuning = wanted_config(goal), goal.spec.tuning
    if not name or (config is None and tuning is not None and not tuning.config):
        return None  # it needs none, or the default one is created for it
    if config is None:
        return Cause(MISSING, str(missing_config_error(name, namespace)))
    errors = (
        tuple(inference_config_errors(config, goal.model))
        if tuning is None
        else tuple(training_config_errors(name, namespace, config, tuning.method))
    )
    return _invalid(errors) if errors else None


def _invalid(errors: tuple[FieldError, ...]) -> Cause:
    return Cause(INVALID, message_of(errors))


# The facts about a model that is not in the catalogue: looked up once, then kept in an annotation.
#
# A running server and a restarted operator then no longer depend on Hugging Face. A user without
# access to Hugging Face may write the annotation instead.

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


def missing_model(goal: Goal, found: LookupState[Model] | None, options: KaitoOptions) -> Cause:
    """Return why a model is not known yet.

    Args:
        goal: that lacks it.
        found: by its look-up.
        options: options of the operator.
    """
    name = goal.preset.name if goal.preset else ""
    unknown = f"model {name} is not in the catalogue"
    if not options.hugging_face:
        said = f"{unknown}, and the operator may not ask Hugging Face"
        return Cause(_OFFLINE, f"{said}; {_REMEDY}")
    if isinstance(found, Unanswered):
        said = f"{unknown}, and {found.message}; the operator tries again"
        return Cause(found.reason, f"{said}; {_REMEDY}")
    return Cause(_PENDING, f"{unknown}: asking Hugging Face about it")
