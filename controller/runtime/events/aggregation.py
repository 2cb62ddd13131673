"""Replaces many similar events by one, so that their number does not grow with that of pods.

Each event is a request and a line in `kubectl describe`, and the spam filter passes only 25 about
one object at once: a thousand events about created pods would hide all others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controller.runtime.plan import Event

MAX_INDIVIDUAL = 4
"""Similar events of one reconcile that are recorded individually, each with its own note."""


def aggregate_events(events: Iterable[Event]) -> Iterator[Event]:
    """The events of one reconcile in order; many similar ones become one with a count."""
    like: dict[Event, list[Event]] = {}
    for event in events:
        kind = replace(event, note="") if event.aggregate_note else event
        like.setdefault(kind, []).append(event)
    for kind, members in like.items():
        if kind.aggregate_note and len(members) > MAX_INDIVIDUAL:
            yield replace(kind, note=kind.aggregate_note.replace("{count}", str(len(members))))
        else:
            yield from members
