"""Every combination of facts that a decision can tell apart, found by following the decision.

A fact that was not asked for cannot have mattered. So each fact gets all of its values when it is
first asked for, and only then: what comes out covers all combinations, each once.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any

from msgspec.structs import fields

from controller.ray.job.facts import JobFacts, State
from controller.ray.job.table import DueTransition, next_step

COUNTS = (0, 1, 2)
"""Values of the counters: none, some, and more than allowed of either."""


class _Undecided(Exception):  # noqa: N818  it is no error
    """This fact is asked for and has no value yet."""


class _Partial:
    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known

    def __getattr__(self, name: str) -> Any:
        if name not in self._known:
            raise _Undecided(name)
        return self._known[name]


def values() -> dict[str, tuple[Any, ...]]:
    """All values of each fact."""
    hints = typing.get_type_hints(JobFacts)
    return {field.name: _values(hints[field.name]) for field in fields(JobFacts)}


@cache
def explored(state: State) -> tuple[tuple[dict[str, Any], DueTransition | None], ...]:
    """Each class of facts that the table tells apart in a state: those that matter, and the step.

    Explored once, as it takes seconds.
    """
    return tuple(_explore(state))


def _explore(state: State) -> Iterator[tuple[dict[str, Any], DueTransition | None]]:
    every = values()
    open_: list[dict[str, Any]] = [{}]
    while open_:
        known = open_.pop()
        try:
            step = next_step(state, typing.cast("JobFacts", _Partial(known)))
        except _Undecided as asked:
            name = str(asked)
            open_.extend({**known, name: value} for value in every[name])
        else:
            yield known, step


def _values(kind: Any) -> tuple[Any, ...]:
    if kind is bool:
        return (False, True)
    if kind is int:
        return COUNTS
    assert issubclass(kind, Enum)
    return tuple(kind)
