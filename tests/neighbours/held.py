"""Finds the objects that an operator holds in memory."""

from __future__ import annotations

import gc
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

OTHERS = (
    "asyncio", "devcluster", "controller.testing", "prometheus_client", "tests"
)  # fmt: skip
"""Packages of what is not looked at: the event loop, metrics, whose labels have few values, and the
world of the test."""


BOUNDED = ("SpamFilter", "FairLimiter", "InternPool", "SchemaNode", "Failed")
"""Classes that keep the latest of what they have seen, up to a capacity that their tests check;
schemas: one for each resource, which share more or fewer nodes by the moments they were read at;
and the errors of caches, of which each cache keeps its last."""

NUMBERS = (int, float)
"""Types of what is not counted: a statistic that grows is another object than before."""


class Held:
    """The objects that can be reached from `roots`.

    What only cycles hold is not held: the last errors of writes refer to the frames they passed.
    """

    def __init__(self, *roots: object) -> None:
        gc.collect()
        self._found: dict[int, object] = {}
        self._holders: dict[int, object] = {}
        waiting = list(roots)
        while waiting:
            each = waiting.pop()
            if id(each) in self._found or _is_beside(each):
                continue
            self._found[id(each)] = each
            for referent in _referents(each):
                self._holders.setdefault(id(referent), each)
                waiting.append(referent)

    def by_type(self) -> Counter[str]:
        found = self._found.values()
        return Counter(type(each).__qualname__ for each in found if not self._is_passing(each))

    def _is_passing(self, each: object) -> bool:
        # A watch keeps the last line that it has read: one or two, by the moment.
        holder = self._holders.get(id(each))
        return isinstance(each, NUMBERS) or (
            isinstance(each, bytes) and inspect.iscoroutine(holder)
        )

    def texts(self, tells: Callable[[str], object]) -> list[str]:
        """Return the texts for which `tells` is true, each with the types that hold it."""
        texts = [each for each in self._found.values() if isinstance(each, str) and tells(each)]
        return [" < ".join((text[:80], *self._types_above(text))) for text in texts]

    def _types_above(self, each: object) -> Iterator[str]:
        passed = {id(each)}
        while (holder := self._holders.get(id(each))) is not None and id(holder) not in passed:
            yield type(holder).__qualname__
            passed.add(id(holder))
            each = holder


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
