"""What an operator process was last told by its plans to change: it may change nothing else.

A change whose answer was lost may only be sent again if the plan of the moment contains it: its
user may have revoked meanwhile what it was for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from controller.apimachinery.patches import apply_merge_patch
from controller.runtime.kind import CacheReader, Kind
from controller.runtime.plan import JsonPatch, MergePatch, Plan, Replace, subresource_of
from controller.testing.faults import JournalEntry

Change: TypeAlias = MergePatch | JsonPatch | Replace

CHANGES = frozenset({"patch", "update"})
BESIDE_PLANS = frozenset({"events.events.k8s.io", "leases.coordination.k8s.io"})


class Orders:
    """Of one operator process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, violations: list[str]) -> None:
        self._loop = loop
        self._violations = violations
        self._key = ""
        self._latest: dict[tuple[str, str], list[Change]] = {}

    def witness(self, kind: Kind[Any]) -> None:
        """Hear of what this kind plans; it observes an object and plans for it at once."""
        observe, plan = kind.observe, kind.plan

        def observed(key: str, reads: CacheReader) -> Any:
            self._key = key
            return observe(key, reads)

        def planned(observation: Any, now: datetime) -> Plan:
            found = plan(observation, now)
            self._latest[kind.name, self._key] = [*changes_of(found)]
            return found

        kind.observe, kind.plan = observed, planned  # type: ignore[method-assign]

    def __call__(self, entry: JournalEntry) -> None:
        about = entry.attributes
        if about.verb not in CHANGES or about.subresource or about.resource in BESIDE_PLANS:
            return
        where = (about.resource, about.namespace, about.name)
        ordered = [
            change
            for changes in self._latest.values()
            for change in changes
            if (str(change.target.resource), change.target.namespace, change.target.name) == where
        ]
        if not any(is_sent(change, msgspec.json.decode(entry.body)) for change in ordered):
            what = "another change" if ordered else "no change"
            self._violations.append(
                f"{self._loop.time():.3f} s: {about.resource} {about.name} was changed by "
                f"{entry.body.decode()}, and the last plan contained {what} of it"
            )


def changes_of(plan: Plan) -> Iterator[Change]:
    """Yield the changes of objects in a plan, but for the status."""
    commit = [plan.commit] if plan.commit else []
    for write in (*commit, *(each for stage in plan.stages for each in stage), *plan.independent):
        if isinstance(write, MergePatch | JsonPatch | Replace) and not subresource_of(write):
            yield write


def is_sent(change: Change, body: Any) -> bool:
    """Return whether a request with this body carries out the change."""
    match change:
        case MergePatch():  # beside it the request has the preconditions alone
            return _contains(body, change.patch)
        case JsonPatch():
            return list(change.operations) == body
        case Replace():
            return apply_merge_patch(body, change.merge) == body


def _contains(body: Any, part: Any) -> bool:
    if not isinstance(body, Mapping) or not isinstance(part, Mapping):
        return bool(body == part)
    return all(name in body and _contains(body[name], value) for name, value in part.items())
