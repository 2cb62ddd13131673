"""Lists the probes for the debug page."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from controller.ray.dashboard.head_actor import HeadActor
from controller.ray.dashboard.probe_state import ProbeState
from controller.ray.dashboard.probes import Probe, ProbeValue
from controller.ray.dashboard.responses import JobInfo
from controller.runtime import debug


def probe_listing(
    actors: Iterable[HeadActor], now: datetime
) -> debug.BoundedList[debug.ProbeEntry]:
    """Return all probes: failing ones first, then those with the oldest answer."""
    found = ((actor, probe) for actor in actors for probe in actor.probes)
    return debug.listing(
        found, lambda each: _shown(*each, each[0].probes[each[1]], now), rank=_rank
    )


def _rank(item: debug.ProbeEntry) -> tuple[int, float]:
    return -item.failures, float("-inf") if item.answered is None else -item.answered


def _shown(actor: HeadActor, probe: Probe, state: ProbeState, now: datetime) -> debug.ProbeEntry:
    streak = max(state.failures, actor.silence, key=lambda each: each.length)
    seen = state.observation(actor.silence)
    answered = None if seen.last_success is None else (now - seen.last_success).total_seconds()
    return debug.ProbeEntry(
        dashboard=str(actor.head),
        probe=probe.name,
        objects=[
            f"{each.controller} {each.key}" for each in list(state.subscribers)[: debug.LIMIT]
        ],
        answer=_answer(seen.value),
        answered=None if answered is None else round(answered, 3),
        changed=round((now - seen.since).total_seconds(), 3),
        failures=streak.length,
        cause=debug.cause(streak.error),
    )


def _answer(value: ProbeValue | None) -> str:
    if isinstance(value, JobInfo):
        return f"job {value.status.value}"
    return "" if value is None else type(value).__name__
