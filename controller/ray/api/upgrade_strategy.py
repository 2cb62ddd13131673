"""The numbers of replicas that may be missing, or may exist in addition, during a replacement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec

from controller.apimachinery.validation import Problem, read_annotation
from controller.kube.objects import View
from controller.ray.api import labels


class ReplicaBudget(View, frozen=True):
    """Settings of a rolling replacement, like those of a Deployment.

    Attributes:
        max_unavailable: replicas that may be missing, or their percentage.
        max_surge: replicas that may exist above the desired number, or their percentage.
    """

    max_unavailable: int | str = 0
    max_surge: int | str = 1

    def surge_of(self, desired: int) -> int:
        """Return the replicas that may exist above this number; percentages round up."""
        return _share(self.max_surge, desired, round_up=True)

    def unavailable_of(self, desired: int) -> int:
        """Return how many of these replicas may be missing; percentages round down.

        If both percentages come to 0, which would block every replacement, the result is 1, as for
        a Deployment.
        """
        share = _share(self.max_unavailable, desired, round_up=False)
        return share if share or self.surge_of(desired) else 1


def budget_problems(budget: ReplicaBudget, path: str) -> Iterator[Problem]:
    """Yield the problems of the budget at this path; callers use the first."""
    numbers: dict[str, int] = {}
    for field, amount in (
        ("maxSurge", budget.max_surge),
        ("maxUnavailable", budget.max_unavailable),
    ):
        number = amount if isinstance(amount, int) else _percentage(amount)
        if number is None or number < 0:
            yield Problem(
                f"{path}.{field}",
                f"is {amount!r}; give a number of replicas, 0 or more, or their percentage, such "
                "as 25%",
            )
            return
        numbers[field] = number
    if isinstance(budget.max_unavailable, str) and numbers["maxUnavailable"] > 100:
        yield Problem(f"{path}.maxUnavailable", f"is {budget.max_unavailable}; give at most 100%")
    if not any(numbers.values()):
        yield Problem(
            f"{path}.maxUnavailable",
            "must not be 0 while maxSurge is 0, or nothing can be replaced; set one of them to 1 "
            "or more",
        )


def _percentage(amount: str) -> int | None:
    """Return the number before the percent sign; None if this is not a percentage."""
    digits = amount.removesuffix("%")
    is_percentage = digits != amount and digits.isascii() and digits.isdigit() and len(digits) < 10
    return int(digits) if is_percentage else None


def _share(amount: int | str, desired: int, *, round_up: bool) -> int:
    if isinstance(amount, int):
        return max(0, amount)
    hundredths = (_percentage(amount) or 0) * desired
    return -(-hundredths // 100) if round_up else hundredths // 100


# The upgrade strategy of a RayCluster: the field, and its annotation.
#
# KubeRay's definition refuses the type RollingUpdate and drops its settings. Where that definition
# is installed, the annotation `manta.dev/upgrade-strategy` replaces the field: with the bare word
# `RollingUpdate`, or the JSON that would be the field's value.

ROLLING_UPDATE: Final = "RollingUpdate"
FIELD: Final = "spec.upgradeStrategy"
ANNOTATION: Final = f"metadata.annotations[{labels.UPGRADE_STRATEGY}]"
_REMEDY: Final = (
    f"write {ROLLING_UPDATE}, or JSON such as "
    '{"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}'
)

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class RollingUpdate(ReplicaBudget, frozen=True):
    """`spec.upgradeStrategy.rollingUpdate`; the budget is that of each group.

    Attributes:
        drain_timeout_seconds: how long Ray may drain a worker before its pod is deleted; 0 turns
            draining off.
        progress_deadline_seconds: seconds without progress after which the upgrade counts as stuck.
    """

    max_parallel_groups: _Count = 1
    drain_timeout_seconds: _Seconds = 300
    progress_deadline_seconds: _Count = 600
    paused: bool = False


class RayClusterUpgradeStrategy(View, frozen=True):
    """`spec.upgradeStrategy`."""

    type: str | None = None
    rolling_update: RollingUpdate | None = None

    @property
    def rolling(self) -> RollingUpdate | None:
        """The settings of a rolling update; None if the type is another one."""
        if self.type != ROLLING_UPDATE:
            return None
        return self.rolling_update or RollingUpdate()


class _StrictRollingUpdate(RollingUpdate, frozen=True, forbid_unknown_fields=True):
    """The settings in the annotation, from which no API server drops unknown fields."""


class _AnnotatedStrategy(View, frozen=True, forbid_unknown_fields=True):
    """The annotation's JSON."""

    type: str
    rolling_update: _StrictRollingUpdate | None = None


def strategy_in_force(
    given: RayClusterUpgradeStrategy, annotations: Mapping[str, str]
) -> RayClusterUpgradeStrategy | Problem:
    """Return the strategy of the annotation if it is set, else that of the specification.

    If both are set they must agree: on the type, and on the settings unless the annotation is the
    bare word.
    """
    text = annotations.get(labels.UPGRADE_STRATEGY, "").strip()
    if not text:
        return given
    if text == ROLLING_UPDATE:
        annotated = RayClusterUpgradeStrategy(type=text)
    else:
        read = _read(text)
        if isinstance(read, Problem):
            return read
        annotated = read
    if given == RayClusterUpgradeStrategy():
        return annotated
    if given.rolling == annotated.rolling or (given.rolling and not annotated.rolling_update):
        return given
    return Problem(ANNOTATION, f"is {text}, which contradicts {_words(given)}; remove one of them")


def _read(text: str) -> RayClusterUpgradeStrategy | Problem:
    annotated = read_annotation(text, _AnnotatedStrategy, ANNOTATION, _REMEDY)
    if isinstance(annotated, Problem):
        return annotated
    if annotated.type != ROLLING_UPDATE:
        return Problem(
            f"{ANNOTATION}.type",
            f"is {annotated.type!r}; the annotation is for RollingUpdate only, set {FIELD}.type "
            "to any other strategy",
        )
    return msgspec.convert(msgspec.to_builtins(annotated), RayClusterUpgradeStrategy)


def _words(given: RayClusterUpgradeStrategy) -> str:
    if given.type is None:
        return f"{FIELD}.rollingUpdate"
    return f"{FIELD}.type {given.type}" + (
        " and its rollingUpdate" if given.type == ROLLING_UPDATE else ""
    )
