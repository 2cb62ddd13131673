"""The steps of a rolling update as text; steps that differ in names only become one line."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.command.planning.upgrades.rolling import GroupStep, Rolling, RollingStep

_MOST_NAMES: Final = 3


def rolling_lines(rolling: Rolling | None) -> Iterator[tuple[str, str]]:
    """Yield the lines with their styles; none without a rolling update."""
    if rolling is None:
        return
    yield "", "  its pods are replaced in these steps"
    number = 0
    for _, alike in groupby(rolling.steps, key=lambda step: step.shape):
        steps = list(alike)
        first, number = number + 1, number + len(steps)
        place = f"{first}." if len(steps) == 1 else f"{first}. to {number}., each:"
        yield "", f"    {place} {_step(steps[0], named=len(steps) == 1)}"
    yield "", f"  at the peak {rolling.peak}; {rolling.before} before, {rolling.after} after"
    yield "", f"  {_time(rolling)}"


def _step(step: RollingStep, *, named: bool) -> str:
    return "; ".join(_group(each, named=named) for each in step.groups)


def _group(each: GroupStep, *, named: bool) -> str:
    where = "head" if each.group == "headgroup" else f"group {each.group}"
    leaving = [name for name in each.deleted if name in each.drained]
    others = [name for name in each.deleted if name not in each.drained]
    parts = [
        f"{verb} {_pods(names, named=named)}"
        for verb, names in (("drain and delete", leaving), ("delete", others))
        if names
    ]
    if each.created:
        parts.append(f"create {_count(each.created)}")
    return f"{where}: {', '.join(parts)}"


def _pods(names: list[str], *, named: bool) -> str:
    shown = named and len(names) <= _MOST_NAMES
    return ", ".join(names) if shown else _count(len(names))


def _count(pods: int) -> str:
    return "1 Pod" if pods == 1 else f"{pods} Pods"


def _time(rolling: Rolling) -> str:
    drains = ""
    if rolling.drains:
        longest = duration(rolling.drain_timeout_seconds)
        drains = f"; drains come on top, at most {longest} in each of the steps that drain"
    if rolling.seconds is None:
        groups = ", ".join(rolling.unmeasured)
        return f"how long that takes cannot be known: no ready pod of {groups} to measure{drains}"
    return (
        f"new pods need about {duration(rolling.seconds)} in all to be ready, if they take as long "
        f"as the present ones did{drains}"
    )


def duration(seconds: float) -> str:
    """Return `45 s`, `12 min`, `1 h 20 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
