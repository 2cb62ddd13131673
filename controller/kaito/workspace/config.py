"""The ConfigMap with the options of a workload, which may come later than the Workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.kaito.api.validation.config_maps import (
    inference_config_errors,
    longest_context,
    missing_config_error,
    training_config_errors,
)
from controller.kaito.api.validation.field_errors import INVALID, message_of
from controller.kaito.workloads import config_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.api.validation.field_errors import FieldError
    from controller.kaito.workspace.goal import Goal

MISSING = "ConfigMapNotFound"


@dataclass(frozen=True, slots=True)
class Blocked:
    """The reason why a workload is not created, or does not become ready.

    Attributes:
        reason: in one word.
        message: in words.
    """

    reason: str
    message: str


def wanted_config(goal: Goal) -> str:
    """Return the name of the ConfigMap that the workload needs; empty if it needs none."""
    if goal.spec.tuning is not None:
        return config_name(goal.spec.tuning)
    return goal.spec.inference.config if goal.spec.inference is not None else ""


def context_of(config: Mapping[str, str] | None) -> int | None:
    """Return the longest context that the options set, in tokens; None if they set none."""
    return longest_context(config) if config is not None else None


def config_problem(goal: Goal, config: Mapping[str, str] | None, namespace: str) -> Blocked | None:
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
        return Blocked(MISSING, str(missing_config_error(name, namespace)))
    errors = (
        tuple(inference_config_errors(config, goal.model))
        if tuning is None
        else tuple(training_config_errors(name, namespace, config, tuning.method))
    )
    return _invalid(errors) if errors else None


def _invalid(errors: tuple[FieldError, ...]) -> Blocked:
    return Blocked(INVALID, message_of(errors))
