"""Events: `v1` and `events.k8s.io/v1` are two shapes of the same stored objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json


_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedSource": "source",
}
_BACK = {core: name for name, core in _RENAMED.items()}


def to_stored_event(event: Json) -> Json:
    """Convert from `events.k8s.io/v1` to `v1`, in which events are stored."""
    stored = {_RENAMED.get(name, name): value for name, value in event.items()}
    stored["apiVersion"] = "v1"
    return stored


def from_stored_event(event: Json) -> Json:
    """Convert from `v1` to `events.k8s.io/v1`."""
    shown = {_BACK.get(name, name): value for name, value in event.items()}
    shown["apiVersion"] = "events.k8s.io/v1"
    return shown
