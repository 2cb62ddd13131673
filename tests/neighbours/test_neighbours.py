"""A sick tenant hurts nobody: each sickness, for each kind, beside a healthy tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.neighbours.cell import play
from tests.neighbours.kinds import KINDS
from tests.neighbours.known_faults import known_fault
from tests.neighbours.report import PROPERTY
from tests.neighbours.sicknesses import SICKNESSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest.mark import ParameterSet

    from tests.neighbours.kinds import Column
    from tests.neighbours.sickness import Sickness


QUICK = [sickness.name for sickness in SICKNESSES if not sickness.slow][::2]
"""The rows of which `make test` plays one cell. The kinds take turns, so that it plays every column
too.
"""


def cells() -> Iterator[ParameterSet]:
    """Return a test for each sickness and each kind that can have it; CI plays a third of them."""
    for row, sickness in enumerate(SICKNESSES):
        columns = [column for column in KINDS if sickness.concerns(column)]
        quick = sickness.name in QUICK
        turn = QUICK.index(sickness.name) % len(columns) if quick else None
        for place, column in enumerate(columns):
            fault = known_fault(sickness, column)
            marks = [pytest.mark.xfail(strict=True, reason=fault)] if fault else []
            if place != turn:
                marks.append(pytest.mark.slow)
                if (row + place) % 3:
                    marks.append(pytest.mark.rare)
            yield pytest.param(sickness, column, marks=marks, id=f"{sickness.name}-{column}")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize(("sickness", "column"), list(cells()))
async def test_nobody_is_hurt(
    sickness: Sickness, column: Column, record_property: Callable[[str, object], None]
):
    broke = await play(sickness, column)
    record_property(PROPERTY, [sickness.name, str(column), known_fault(sickness, column), broke])
    assert not broke


def test_make_test_plays_a_cell_of_every_second_row_and_of_each_column():
    played = [cell.values for cell in cells() if all(mark.name != "slow" for mark in cell.marks)]
    assert [sickness.name for sickness, _ in played] == QUICK
    assert {column for _, column in played} == set(KINDS)
