"""Answers are slow, late or lost in one namespace."""

from __future__ import annotations

from controller.testing.faults import DelayedRequest, LostRequest, LostResponse, RequestFault
from tests.neighbours.sickness import FLEETS, UPGRADES, Course, Sickness

HANGING = 30.0
"""Seconds after which the operator gives up a request."""

MANY = 40
"""More than there are workers."""


def struck(fault: RequestFault, *verbs: str) -> Course:
    """These verbs suffer, for every resource."""
    return lambda sick: sick.disturbed(fault, "", *verbs)


SICKNESSES = (
    Sickness(
        name="a webhook takes 10 s for each create", course=struck(DelayedRequest(10), "create")
    ),
    Sickness(
        name="a webhook takes 10 s for forty objects",
        course=struck(DelayedRequest(10), "create"),
        crowd=MANY,
        spares=UPGRADES | FLEETS,  # forty of them take a minute of the processor
        slow=True,
    ),
    Sickness(
        name="creates are never answered",
        course=struck(DelayedRequest(1000), "create"),
        lingers=HANGING,
        named="no complete answer",
    ),
    Sickness(
        name="updates are never answered",
        course=struck(DelayedRequest(1000), "patch"),
        lingers=HANGING,
    ),
    Sickness(name="answers to creates are lost", course=struck(LostResponse(), "create")),
    Sickness(
        name="requests to create are lost",
        course=struck(LostRequest(), "create"),
        named="connection reset",
    ),
    Sickness(name="answers to updates are lost", course=struck(LostResponse(), "patch")),
)
