"""Replaces many similar events by one, so that their number does not grow with that of pods.

Each event is a request and a line in `kubectl describe`, and only 25 about one object pass at
once: recorded one by one, the creation of a thousand pods would hide all other events.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controller.runtime.reconcile.plan import Event

MAX_INDIVIDUAL = 4
"""Like events of one run that are told one by one, each with its own note."""


def aggregate_events(events: Iterable[Event]) -> Iterator[Event]:
    """The events of one run in their order; of more than a few like ones, one with their number."""
    like: dict[Event, list[Event]] = {}
    for event in events:
        kind = replace(event, note="") if event.aggregate_note else event
        like.setdefault(kind, []).append(event)
    for kind, members in like.items():
        if kind.aggregate_note and len(members) > MAX_INDIVIDUAL:
            yield replace(kind, note=kind.aggregate_note.replace("{count}", str(len(members))))
        else:
            yield from members
