"""Checks of a RayCluster's upgrade strategy, wherever it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.custom_object import dig
from controller.apimachinery.problem import Problem
from controller.ray.api import labels
from controller.ray.api.upgrade_strategy import (
    ANNOTATION,
    FIELD,
    ROLLING_UPDATE,
    rolling_percentage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.validation.context import ValidationContext


def strategy_problems(context: ValidationContext) -> Iterator[Problem]:
    """All problems of the strategy in force; callers take the first."""
    strategy = context.spec.upgrade_strategy
    given = dig(context.cluster.spec, "upgradeStrategy", "type")
    path = FIELD if given or not strategy.type else ANNOTATION
    origin = (context.cluster.metadata.labels or {}).get(labels.ORIGIN_KIND)
    if strategy.type is not None and origin in {"RayJob", "RayService"}:
        yield Problem(path, f"cannot be set on a cluster of a {origin}")
    if strategy.type not in {None, "Recreate", "None", ROLLING_UPDATE}:
        yield Problem(
            f"{path}.type", f"{strategy.type!r} is none of RollingUpdate, Recreate and None"
        )
    if strategy.rolling is not None:
        yield from _budget(strategy.rolling.max_surge, strategy.rolling.max_unavailable, path)
    elif strategy.rolling_update is not None:
        yield Problem(
            f"{path}.rollingUpdate",
            f"is for type RollingUpdate; set {path}.type to it, or remove {path}.rollingUpdate",
        )


def _budget(surge: int | str, unavailable: int | str, path: str) -> Iterator[Problem]:
    numbers: dict[str, int] = {}
    for field, amount in (("maxSurge", surge), ("maxUnavailable", unavailable)):
        where = f"{path}.rollingUpdate.{field}"
        number = amount if isinstance(amount, int) else rolling_percentage(amount)
        if number is None or number < 0:
            yield Problem(
                where,
                f"is {amount!r}; give a number of replicas, 0 or more, or their percentage, such "
                "as 25%",
            )
            return
        numbers[field] = number
    if isinstance(unavailable, str) and numbers["maxUnavailable"] > 100:
        yield Problem(
            f"{path}.rollingUpdate.maxUnavailable", f"is {unavailable}; give at most 100%"
        )
    if not any(numbers.values()):
        yield Problem(
            f"{path}.rollingUpdate.maxUnavailable",
            "must not be 0 while maxSurge is 0, or nothing can be replaced; set one of them to 1 "
            "or more",
        )
