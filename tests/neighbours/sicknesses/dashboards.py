"""The dashboards of the tenant's heads misbehave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import UPGRADES, Course, Sickness
from tests.ray.dashboard.simulated import Fault

ASKING = UPGRADES | {"RayJob", "RayService", "RayCronJob"}
"""Columns that ask a dashboard: clusters that stay as they are do not, nor do fleets."""

ROLLED = frozenset({Fault.SILENT, Fault.ERROR})
"""Faults that upgrades meet; to them all others are errors."""


def dashboards(fault: Fault) -> Course:
    """All of them do this."""

    @contextmanager
    def course(sick: Tenant) -> Iterator[None]:
        sick.ray.fault(fault)
        yield
        sick.ray.fault(None)

    return course


@contextmanager
def slow(sick: Tenant) -> Iterator[None]:
    """All of them take 20 s for an answer."""
    usual, sick.ray.latency = sick.ray.latency, lambda _head: 20.0
    yield
    sick.ray.latency = usual


SICKNESSES = (
    *(
        Sickness(
            name=f"dashboards: {words}",
            course=dashboards(fault),
            only=ASKING if fault in ROLLED else ASKING - UPGRADES,
            named="dashboard",
        )
        for fault, words in (
            (Fault.REFUSES, "nothing listens"),
            (Fault.SILENT, "no answers"),
            (Fault.ERROR, "errors"),
            (Fault.ERROR_JSON, "errors that look like jobs"),
            (Fault.HTML, "a proxy's page"),
            (Fault.TRUNCATED, "half of each answer"),
            (Fault.FORBIDDEN, "403"),
        )
    ),
    Sickness(name="dashboards: lost answers", course=dashboards(Fault.LOSES_ANSWERS), only=ASKING),
    Sickness(name="dashboards: 20 s for an answer", course=slow, only=ASKING),
)
