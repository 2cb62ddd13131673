"""Shared parts of the statuses that node components write: conditions and patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.kube.objects import ObjectMeta


class StatusPart(
    msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True, omit_defaults=True
):
    """A part of a status that the kubelet writes; members at their default are left out."""


class ReportedCondition(StatusPart, frozen=True):
    """`conditions[]`."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """The desired content of a condition."""

    type: str
    is_true: bool
    reason: str | None = None
    message: str | None = None


def with_conditions(
    conditions: tuple[ReportedCondition, ...], verdicts: Iterable[ConditionUpdate], now: str
) -> tuple[ReportedCondition, ...]:
    """Return `conditions` with these verdicts; times move only with a status."""
    merged = {condition.type: condition for condition in conditions}
    for verdict in verdicts:
        status = "True" if verdict.is_true else "False"
        old = merged.get(verdict.type)
        unchanged = old is not None and old.status == status
        merged[verdict.type] = ReportedCondition(
            type=verdict.type,
            status=status,
            reason=verdict.reason,
            message=verdict.message,
            last_transition_time=old.last_transition_time if old and unchanged else now,
        )
    return tuple(merged.values())


def status_patch(old: StatusPart, new: StatusPart) -> dict[str, Any]:
    """Return the merge patch of `status` from `old` to `new`; empty if they are equal."""
    before: dict[str, Any] = msgspec.to_builtins(old)
    after: dict[str, Any] = msgspec.to_builtins(new)
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return changed | dict.fromkeys(before.keys() - after.keys())


def status_write(meta: ObjectMeta, change: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch that writes a change of the status to this revision of the object."""
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": change,
    }
