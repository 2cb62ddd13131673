"""Checks a RayCluster's upgrade strategy, whether a field or an annotation sets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.custom_object import dig
from controller.apimachinery.problem import Problem
from controller.ray.api import labels
from controller.ray.api.fields.replica_budget import budget_problems
from controller.ray.api.fields.upgrade_strategy import (
    ANNOTATION,
    FIELD,
    ROLLING_UPDATE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.validation.context import ValidationContext

_REPLACED_BY_THEIR_OWNERS: Final = frozenset({"RayClusterFleet", "RayJob", "RayService"})
"""Kinds that replace their clusters as a whole."""


def strategy_problems(context: ValidationContext) -> Iterator[Problem]:
    """Yield all problems of the strategy in force."""
    strategy = context.spec.upgrade_strategy
    given = dig(context.cluster.spec, "upgradeStrategy", "type")
    path = FIELD if given or not strategy.type else ANNOTATION
    origin = (context.cluster.metadata.labels or {}).get(labels.ORIGIN_KIND)
    if strategy.type is not None and origin in _REPLACED_BY_THEIR_OWNERS:
        yield Problem(path, f"cannot be set on a cluster of a {origin}")
    if strategy.type not in {None, "Recreate", "None", ROLLING_UPDATE}:
        yield Problem(
            f"{path}.type", f"{strategy.type!r} is none of RollingUpdate, Recreate and None"
        )
    if strategy.rolling is not None:
        yield from budget_problems(strategy.rolling, f"{path}.rollingUpdate")
    elif strategy.rolling_update is not None:
        yield Problem(
            f"{path}.rollingUpdate",
            f"is for type RollingUpdate; set {path}.type to it, or remove {path}.rollingUpdate",
        )
