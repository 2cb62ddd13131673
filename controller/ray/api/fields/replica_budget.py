"""The numbers of replicas that may be missing, or may exist in addition, during a replacement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.problem import Problem
from controller.kube.objects import View

if TYPE_CHECKING:
    from collections.abc import Iterator


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
