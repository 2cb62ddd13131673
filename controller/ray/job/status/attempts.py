"""`status.attempts`: the last ten attempts, for information only; no decision depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

Attempt = dict[str, Any]

KEPT: Final = 10
"""Number of attempts kept."""


def begin(
    present: Sequence[Mapping[str, Any]],
    *,
    failed: int,
    cluster: str,
    job_id: str,
    now: datetime,
) -> list[Attempt]:
    """Return the attempts and a new one that starts now, after `failed` failures."""
    last = max((_number(each) for each in present), default=0)
    attempt = {
        "number": max(last, failed) + 1,
        "rayClusterName": cluster,
        "jobId": job_id,
        "startTime": rfc3339(now),
    }
    return _kept([*present, attempt])


def change(
    present: Sequence[Mapping[str, Any]], cluster: str, **changes: Any
) -> list[Attempt] | None:
    """Return the attempts with the last one changed; None if the last one ran on another cluster.

    Empty values are left out.
    """
    if not present or present[-1].get("rayClusterName") != cluster:
        return None
    changed = {name: value for name, value in changes.items() if value}
    return _kept([*present[:-1], {**present[-1], **changed}])


def _kept(attempts: Sequence[Mapping[str, Any]]) -> list[Attempt]:
    return [dict(each) for each in attempts[-KEPT:]]


def _number(attempt: Mapping[str, Any]) -> int:
    number = attempt.get("number")
    return number if isinstance(number, int) else 0
