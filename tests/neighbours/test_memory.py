"""Sick objects that are deleted leave nothing behind in the operator's memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from tests.neighbours.kinds import KINDS, Column
from tests.neighbours.remains import remains
from tests.neighbours.sickness import Sickness
from tests.neighbours.sicknesses import SICKNESSES

pytestmark = pytest.mark.slow


QUICK = [sickness.name for sickness in SICKNESSES if not sickness.slow][1::16]
"""The rows of which `make test` plays one cell; the kinds take turns."""


@pytest.fixture(scope="module", autouse=True)
def only_new_objects_are_collected() -> Iterator[None]:
    """Have the garbage collector leave alone what the interpreter has loaded: it takes long."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def cells() -> Iterator[ParameterSet]:
    """Return a test for each sickness and each kind that can have it; CI plays few of them."""
    for row, sickness in enumerate(SICKNESSES):
        columns = [column for column in KINDS if sickness.concerns(column)]
        turn = QUICK.index(sickness.name) % len(columns) if sickness.name in QUICK else None
        for place, column in enumerate(columns):
            is_rare = place != turn and (row % 6 or place != row // 6 % len(columns))
            marks = pytest.mark.rare if is_rare else ()
            yield pytest.param(sickness, column, marks=marks, id=f"{sickness.name}-{column}")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize(("sickness", "column"), list(cells()))
async def test_memory_is_flat(sickness: Sickness, column: Column):
    assert not await remains(sickness, column)
