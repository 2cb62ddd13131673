"""A cell finds what it is there to find: each of its checks fails where it must."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from controller.kube.resources import NAMESPACES
from controller.testing.faults import DelayedRequest, ErrorResponse, Rule
from tests.neighbours.cell import play
from tests.neighbours.kinds import KINDS
from tests.neighbours.sickness import Sickness
from tests.neighbours.sicknesses.servers import for_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.neighbours.neighbourhood import Tenant
    from tests.neighbours.sickness import Course

pytestmark = [pytest.mark.usefixtures("silence"), pytest.mark.timeout(180)]


async def found(course: Course, **more: object) -> list[str]:
    sickness = Sickness(name="made up", course=course, **more)  # type: ignore[arg-type]
    return await play(sickness, KINDS[0])


async def test_a_slow_neighbour_too_many_requests_and_a_cause_that_is_not_named_are_found():
    everybody = for_all(DelayedRequest(20), "pods", "create")
    broke = await found(everybody, named="no such words", requests=-1000, lasts=60)
    beginnings = ("the healthy one took ", "", "not named: no such words")
    assert len(broke) == len(beginnings), broke
    assert all(text.startswith(begin) for text, begin in zip(broke, beginnings, strict=True))
    assert " requests, " in broke[1]


async def test_an_operator_that_is_unready_is_found():
    @contextmanager
    def unready(sick: Tenant) -> Iterator[None]:
        sick.street.operator.operator.health.add_readiness("mood", lambda: "bad")
        yield

    assert await found(unready, lasts=60) == ["unready: mood: bad"]


async def test_an_object_that_stays_sick_is_found():
    @contextmanager
    def for_ever(sick: Tenant) -> Iterator[None]:
        refusal = ErrorResponse(403, "Forbidden", "not by policy")
        rule = Rule(refusal, "pods", frozenset({"create"}), namespace=sick.namespace)
        sick.street.operator.transport.rules.append(rule)
        yield

    broke = await found(for_ever, lasts=60)
    assert len(broke) == 1
    assert broke[0].startswith("not well ")
    assert "not by policy" in broke[0]


@pytest.mark.parametrize(
    ("course", "means"),
    [
        (lambda sick: sick.disturbed(DelayedRequest(1), "secrets", "patch"), "requests and events"),
        (lambda sick: sick.mutating("pods", lambda _pod: None), "mutations"),
        (lambda sick: sick.reacting(NAMESPACES, lambda _user, _event: None), "reactions"),
    ],
)
async def test_a_sickness_that_strikes_nothing_is_found(course: Course, means: str):
    assert await found(course, lasts=60) == [f"the sickness strikes nothing: no {means}"]
