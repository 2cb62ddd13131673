"""Bounded lists of the debug page. An object that cannot be shown does not affect the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from controller.runtime.debug.shape import BoundedList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

S = TypeVar("S")
T = TypeVar("T", bound=msgspec.Struct)

LIMIT: Final = 100
"""Maximum items of one list. The page has several lists and stays below 1 MB."""


def listing(
    objects: Iterable[S],
    describe: Callable[[S], T],
    *,
    total: int | None = None,
    rank: Callable[[T], Any] | None = None,
) -> BoundedList[T]:
    """Return the items that describe these objects, lowest rank first, at most `LIMIT`.

    Args:
        objects: in their order, unless there is a `rank`.
        describe: makes an item of an object. If it raises, the object is counted and left out.
        total: how many objects there are; None if `objects` holds all of them.
        rank: rank of an item; anything that can be compared.
    """
    items: list[T] = []
    unreadable = seen = 0
    for each in objects:
        seen += 1
        try:
            item = describe(each)
            msgspec.json.encode(item)
        except Exception:  # noqa: BLE001  whatever is odd about it, the others are shown
            unreadable += 1
        else:
            items.append(item)
    if rank is not None:
        items.sort(key=rank)
    return BoundedList(
        total=seen if total is None else total, items=items[:LIMIT], unreadable=unreadable
    )
