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

    from tests.neighbours.kinds import Column
    from tests.neighbours.sickness import Sickness


def cells() -> Iterator[object]:
    """Return a test for each sickness and each kind that can have it."""
    for sickness in SICKNESSES:
        for column in KINDS:
            if sickness.concerns(column):
                fault = known_fault(sickness, column)
                marks = [pytest.mark.xfail(strict=True, reason=fault)] if fault else []
                marks += [pytest.mark.slow] if sickness.slow else []
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
