"""Replaces many similar events with one, so that their number does not grow with the pods.

Each event is a request and a line in `kubectl describe`, and the spam filter passes only 25 about
one object at once: a thousand events about created pods would hide all others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controller.runtime.plan import Event

MAX_JOINED = 4
"""Maximum similar events of one reconcile whose notes are joined; more are only counted."""


def aggregate_events(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of one reconcile; similar ones become one, with all notes or a count."""
    like: dict[Event, list[Event]] = {}
    for event in events:
        kind = replace(event, note="") if event.aggregate_note else event
        like.setdefault(kind, []).append(event)
    for kind, members in like.items():
        if not kind.aggregate_note:
            yield from members
        elif len(members) > MAX_JOINED:
            yield replace(kind, note=kind.aggregate_note.replace("{count}", str(len(members))))
        else:
            yield replace(kind, note="; ".join(each.note for each in members))
