"""Cells that are known to fail, each with the fault that is to be mended.

A cell that stands here and passes fails the test: take it out with the mend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.neighbours.kinds import Column
from tests.neighbours.sickness import Sickness

KNOWN: Final[Mapping[str, Mapping[str, str]]] = {}
"""Points by sickness and kind."""


def known_fault(sickness: Sickness, column: Column) -> str:
    """Return the point because of which this cell fails; empty if it is to pass."""
    return KNOWN.get(sickness.name, {}).get(str(column), "")
