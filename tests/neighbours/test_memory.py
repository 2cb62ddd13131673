"""Ten sick objects, one after another, leave nothing behind in the operator's memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.neighbours.cell import entered
from tests.neighbours.held import held
from tests.neighbours.kinds import KINDS
from tests.neighbours.neighbourhood import Neighbourhood, neighbourhood
from tests.neighbours.sicknesses import SICKNESSES

if TYPE_CHECKING:
    from tests.neighbours.kinds import Column
    from tests.neighbours.sickness import Sickness

ROUNDS = 10
WARM = 6
"""Rounds after which every metric has its labels and every pool its size."""

BEFORE, SICK, REST = 15.0, 45.0, 90.0
"""Seconds of a round before the sickness, in it, and after it and the deletion."""

SLACK = 10
"""Objects that may be held by chance, of thousands."""

OTHERS = [column for column in KINDS if str(column) in {"RayClusterFleet", "RollingUpdate"}]
"""Columns that no row plays by itself."""

TOLD = {
    "a webhook denies what the kind creates",
    "answers to updates are lost",
    "dashboards: lost answers",
    "pods never become ready",
}
"""Rows in which most is remembered: errors, outcomes that are not known, and deadlines."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("silence")]


@pytest.mark.parametrize("sickness", SICKNESSES, ids=lambda sickness: sickness.name)
async def test_memory_is_flat(sickness: Sickness):
    first = (*reversed(KINDS[:2]), *KINDS[2:])
    await _stays_flat(sickness, next(column for column in first if sickness.concerns(column)))


@pytest.mark.parametrize(
    ("sickness", "column"),
    [
        pytest.param(sickness, column, id=f"{sickness.name}-{column}")
        for sickness in SICKNESSES
        for column in OTHERS
        if sickness.name in TOLD and sickness.concerns(column)
    ],
)
async def test_memory_is_flat_in_other_columns_too(sickness: Sickness, column: Column):
    await _stays_flat(sickness, column)


async def _stays_flat(sickness: Sickness, column: Column) -> None:
    async with neighbourhood(column) as street:
        rounds = [await _round(street, sickness, column) for _ in range(ROUNDS)]
    warm = max(rounds[:WARM], key=Counter.total)
    last = min(rounds[-2:], key=Counter.total)  # a round may end amid a request
    assert last.total() - warm.total() <= SLACK, (last - warm).most_common(5)


async def _round(street: Neighbourhood, sickness: Sickness, column: Column) -> Counter[str]:
    """Live through a sickness, delete the object, and count what the operator holds."""
    sick, edits = street.sick, column.edit is not None
    if sickness.late or edits:
        await sick.create(column, "sick-0")
        await asyncio.sleep(BEFORE)
    if sickness.late and edits:
        await sick.edit(column, "sick-0")
    async with entered(sickness.course(sick)):
        if not sickness.late:
            await (sick.edit if edits else sick.create)(column, "sick-0")
        await asyncio.sleep(SICK)
    await sick.delete(column, "sick-0")
    await asyncio.sleep(REST)
    return held(street.operator.operator, street.actors)
