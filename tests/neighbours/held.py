"""Counts the objects that an operator holds in memory."""

from __future__ import annotations

import gc
from collections import Counter
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

OTHERS = ("asyncio", "async_solipsism", "controller.devcluster", "prometheus_client", "tests")
"""Packages of what is not counted: the event loop, metrics, whose labels have few values, and the
world of the test."""


BOUNDED = ("SpamFilter", "CreateErrors", "FairLimiter", "InternPool", "SchemaNode")
"""Classes that keep the latest of what they have seen, up to a capacity that their tests check, and
schemas: one for each resource, which share more or fewer nodes by the moments they were read at."""


def held(*roots: object) -> Counter[str]:
    """Count the objects that can be reached from `roots`, by type.

    What only cycles hold is not held: the last errors of writes refer to the frames they passed.
    """
    gc.collect()
    seen: dict[int, object] = {}
    waiting = list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) in seen or _is_beside(each):
            continue
        seen[id(each)] = each
        waiting.extend(_referents(each))
    return Counter(type(each).__qualname__ for each in seen.values())


def _is_beside(each: object) -> bool:
    kind = type(each)
    if isinstance(each, ModuleType | type) or kind.__name__ in BOUNDED:
        return True
    return kind.__module__.startswith(OTHERS)


def _referents(each: object) -> Iterable[Any]:
    """What an object refers to; of a function only its closure."""
    if isinstance(each, FunctionType):
        return list(each.__closure__ or ())
    if isinstance(each, BuiltinFunctionType):
        return [each.__self__]
    return gc.get_referents(each)
