"""A sick tenant hurts nobody: each sickness, for each kind, beside a healthy tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from _pytest.mark import ParameterSet

from controller.command.kinds import KindSettings, kinds_of
from controller.ray.api import FeatureGates
from controller.ray.api.feature_gates import GATES
from tests.neighbours.cell import play
from tests.neighbours.kinds import KINDS, Column
from tests.neighbours.known_faults import known_fault
from tests.neighbours.report import PROPERTY
from tests.neighbours.sickness import Sickness
from tests.neighbours.sicknesses import SICKNESSES

PLAYED = [sickness.name for sickness in SICKNESSES if not sickness.slow][::2]
"""The rows of which CI plays one cell in any case. The kinds take turns, so that it plays every
column too.
"""
QUICK = PLAYED[::2]
"""Those of them whose cell `make test` plays."""


def cells() -> Iterator[ParameterSet]:
    """Return a test for each sickness and each kind that can have it; CI plays a sixth."""
    turns = _turns()
    for row, sickness in enumerate(SICKNESSES):
        columns = [column for column in KINDS if sickness.concerns(column)]
        name = sickness.name
        turn = columns.index(turns[name]) if name in turns else None
        for place, column in enumerate(columns):
            fault = known_fault(sickness, column)
            marks = [pytest.mark.xfail(strict=True, reason=fault)] if fault else []
            if place != turn or name not in QUICK:
                marks.append(pytest.mark.slow)
            if place != turn and (row + place) % 12:
                marks.append(pytest.mark.rare)
            yield pytest.param(sickness, column, marks=marks, id=f"{name}-{column}")


def _turns() -> dict[str, Column]:
    """Return the column that each row plays in any case: the one that was played least before."""
    turns: dict[str, Column] = {}
    rows = {sickness.name: sickness for sickness in SICKNESSES}
    played: Counter[str] = Counter()
    for name in (*QUICK, *PLAYED[1::2]):
        columns = filter(rows[name].concerns, KINDS)
        turns[name] = min(columns, key=lambda column: played[str(column)])
        played[str(turns[name])] += 1
    return turns


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize(("sickness", "column"), list(cells()))
async def test_nobody_is_hurt(
    sickness: Sickness, column: Column, record_property: Callable[[str, object], None]
):
    broke = await play(sickness, column)
    record_property(PROPERTY, [sickness.name, str(column), known_fault(sickness, column), broke])
    assert not broke


def test_make_test_plays_a_cell_of_every_fourth_row_and_of_each_column():
    played = [cell.values for cell in cells() if all(mark.name != "slow" for mark in cell.marks)]
    assert [sickness.name for sickness, _ in played] == QUICK
    assert {column for _, column in played} == set(KINDS)


def test_every_kind_that_is_served_has_a_column():
    gates = FeatureGates(dict.fromkeys(GATES, True))
    served = kinds_of(KindSettings.from_environment(gates, {}), None)
    assert {kind.primary for kind in served} == {column.resource for column in KINDS}


def test_there_are_more_sicknesses_than_thirty_each_under_a_name_of_its_own():
    names = [sickness.name for sickness in SICKNESSES]
    assert len(set(names)) == len(names) > 30
