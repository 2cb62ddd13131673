"""Pairs of values where all combinations would test the same line again and again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Any


def in_turn(*sorts: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return each value of the longest sort once, beside the others' values in turn."""
    values = [list(each) for each in sorts]
    most = max(map(len, values))
    turns = [each if len(each) == most else cycle(each) for each in values]
    return list(zip(*turns, strict=False))
