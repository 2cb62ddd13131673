"""Decides whether a status is written now, later or not at all."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import without_times
from controller.apimachinery.patches import difference
from controller.runtime.reconcile.status.changes import (
    changes_a_record,
    changes_only_messages,
    keep_messages,
    stored_status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.kube.objects import KubeObject
    from controller.runtime.plan import StatusPatch

MESSAGE_INTERVAL: Final = 300.0
"""Minimum seconds from a status write that names a failure to one that only changes messages."""


@dataclass(frozen=True, slots=True)
class StatusDecision:
    """A decision about one status.

    Attributes:
        patch: merge patch of the status to write now; None to write nothing.
        wait: seconds until the status is due; None if it is written now or not at all.
        wanted: the wanted status, with the messages that stay.
    """

    patch: dict[str, Any] | None = None
    wait: float | None = None
    wanted: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class _StatusHistory:
    """The writes of one object's status.

    Attributes:
        written_at: monotonic seconds of the last one.
        named_failure_at: monotonic seconds of the last one that named a failure.
        changed_at: monotonic seconds since when a change has been held back.
        pruned: the fields of the last one that the server did not keep.
    """

    written_at: float = -math.inf
    named_failure_at: float = -math.inf
    changed_at: float = math.inf
    pruned: dict[str, Any] = field(default_factory=dict[str, Any])


class StatusDecisions:
    """Decides about statuses from earlier writes, which it remembers by uid.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._histories: dict[str, _StatusHistory] = {}

    def decide(
        self, obj: KubeObject, status: StatusPatch, wanted: Mapping[str, Any], *, failing: bool
    ) -> StatusDecision:
        """Decide about the status of an object.

        Args:
            obj: the object with its present status.
            status: the plan's patch; `interval`, `urgent`, `settles` and `records` count.
            wanted: what is to be written, with the conditions that the runtime adds.
            failing: whether the status reports a failure; then new messages alone are written
                only after `MESSAGE_INTERVAL`.
        """
        history, present = self._history(obj.metadata.uid), stored_status(obj)
        wanted = keep_messages(present, wanted, status.records) if failing else wanted
        patch = difference(present, wanted)
        if not patch or without_times(patch) == history.pruned:
            history.changed_at = math.inf
            return StatusDecision()
        history.changed_at = min(history.changed_at, self._now())
        if failing and changes_only_messages(present, patch, status.records):
            if history.named_failure_at + MESSAGE_INTERVAL > self._now():
                return StatusDecision()
        else:
            due = -math.inf if status.urgent else history.written_at + status.interval
            settles = 0.0 if changes_a_record(present, patch, status.records) else status.settles
            rest = max(due, history.changed_at + settles) - self._now()
            if rest > 0:
                return StatusDecision(wait=rest)
        return StatusDecision(patch, wanted=wanted)

    def committed(self, uid: str) -> None:
        """Record that a commit has changed the status."""
        self._history(uid).written_at = self._now()

    def written(
        self, stored: KubeObject, wanted: Mapping[str, Any], *, names_failure: bool
    ) -> None:
        """Record a written status and the fields that the server pruned.

        KubeRay's definitions prune some of Manta's fields; writing them again would change nothing.
        Times are not compared, because a pruned condition gets a new one in every plan.

        Args:
            stored: the object that the server returned.
            wanted: the status that was sent.
            names_failure: whether the status names a failure that will not resolve in a moment.
        """
        history = self._history(stored.metadata.uid)
        history.written_at, history.changed_at = self._now(), math.inf
        if names_failure:
            history.named_failure_at = self._now()
        history.pruned = without_times(difference(stored_status(stored), wanted))

    def forget(self, uid: str) -> None:
        """Forget an object that no longer exists."""
        self._histories.pop(uid, None)

    def forget_pruned_fields(self) -> None:
        """Forget pruned fields: a changed definition may store them."""
        for history in self._histories.values():
            history.pruned = {}

    def _history(self, uid: str) -> _StatusHistory:
        return self._histories.setdefault(uid, _StatusHistory())
