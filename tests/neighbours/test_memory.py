"""Sick objects that are deleted leave nothing behind in the operator's memory."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from controller.ray.cluster.kind import RayClusterKind
from controller.runtime.reconcile.executor import Executor
from tests.neighbours.kinds import KINDS
from tests.neighbours.remains import remains
from tests.neighbours.sicknesses import SICKNESSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.mark import ParameterSet

    from controller.ray.cluster.observation import ClusterObservation
    from controller.runtime.kind import CacheReader
    from tests.neighbours.kinds import Column
    from tests.neighbours.sickness import Sickness

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
        quick = sickness.name in QUICK
        turn = QUICK.index(sickness.name) % len(columns) if quick else None
        for place, column in enumerate(columns):
            marks = [] if place == turn else [pytest.mark.slow]
            if place != turn and (row % 6 or place != row // 6 % len(columns)):
                marks.append(pytest.mark.rare)
            yield pytest.param(sickness, column, marks=marks, id=f"{sickness.name}-{column}")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize(("sickness", "column"), list(cells()))
async def test_memory_is_flat(sickness: Sickness, column: Column):
    assert not await remains(sickness, column)


@pytest.mark.usefixtures("silence")
async def test_a_uid_that_is_not_forgotten_is_found(monkeypatch: pytest.MonkeyPatch):
    def forget(_executor: Executor, _uid: str) -> None:
        """Forget nothing."""

    monkeypatch.setattr(Executor, "forget", forget)
    found = await remains(SICKNESSES[0], KINDS[0])
    assert any("Executor" in text for text in found)


@pytest.mark.usefixtures("silence")
async def test_an_object_without_a_name_that_is_kept_for_each_sick_one_is_found(
    monkeypatch: pytest.MonkeyPatch,
):
    def observe(kind: RayClusterKind, key: str, reads: CacheReader) -> ClusterObservation | None:
        found = observe_well(kind, key, reads)
        if found is None:
            vars(kind).setdefault("kept", []).append(object())
        return found

    observe_well = RayClusterKind.observe
    monkeypatch.setattr(RayClusterKind, "observe", observe)
    (found,) = await remains(SICKNESSES[0], KINDS[0])
    assert "'object'" in found
