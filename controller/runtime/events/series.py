"""One event object and how often its event has occurred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from controller.kube.resources import EVENTS

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta
    from controller.kube.resources import Resource
    from controller.runtime.plan import Event

LONGEST_NOTE = 1024
"""Bytes, not characters (EVT-3)."""

LONGEST_FIELD = 128
"""Characters of reason, action and reportingInstance."""

SILENCE = 360.0
"""Seconds without repetition after which a series is over."""

REFRESH = 1800.0
"""Seconds between two updates of a series that continues."""


class SeriesKey(NamedTuple):
    """Events with equal keys belong to one series. `note` is a digest of the note."""

    reporter: str
    regarding: str
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class EventSeries:
    """An event object, its occurrences, and how many of them the server has received.

    Attributes:
        namespace: namespace of the event object.
        name: name of the event object.
        body: the event object at its first occurrence.
        last_seen: monotonic seconds of the last occurrence.
        last_time: time of the last occurrence, RFC 3339.
        count: occurrences.
        sent: occurrences that the server has received.
        sent_at: monotonic seconds of the last successful request.
        tries: failed attempts since then.
        waits_since: how many attempts about its object had failed when it began to wait.
    """

    namespace: str
    name: str
    body: dict[str, Any]
    last_seen: float
    last_time: str
    count: int = 1
    sent: int = 0
    sent_at: float = 0.0
    tries: int = 0
    waits_since: int = 0

    @property
    def expires_at(self) -> float:
        """Monotonic seconds at which the series is over, unless the event occurs again."""
        return self.last_seen + SILENCE

    @property
    def refresh_at(self) -> float:
        """Monotonic seconds from which repetitions may be sent again."""
        return self.sent_at + REFRESH

    def is_due(self, now: float) -> bool:
        """Return whether to send now: the first two, half-hourly, and at the end of the series."""
        if self.sent == self.count:
            return False
        return self.sent < 2 or now >= self.refresh_at or now >= self.expires_at


def event_body(
    name: str,
    resource: Resource[Any],
    meta: ObjectMeta,
    event: Event,
    *,
    note: str,
    time: str,
    reporter: str,
    instance: str,
) -> dict[str, Any]:
    """Return the event object for the first occurrence of an event.

    Args:
        name: name of the event object.
        resource: resource of the object that the event is about.
        meta: metadata of the object that the event is about.
        event: what happened.
        note: the event's note, not longer than `LONGEST_NOTE`.
        time: RFC 3339 with microseconds.
        reporter: `reportingController`.
        instance: `reportingInstance`.
    """
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": meta.namespace or "default"},
        "eventTime": time,
        "reportingController": reporter,
        "reportingInstance": instance,
        "type": event.type,
        "reason": event.reason[:LONGEST_FIELD],
        "action": event.action[:LONGEST_FIELD],
        "note": note,
        "regarding": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
    }
