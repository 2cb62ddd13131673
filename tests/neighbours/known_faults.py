"""Cells that are known to fail, each with the fault that is to be mended.

A cell that stands here and passes fails the test: take it out with the mend.

A2: a write of unknown outcome is not named, and its retries know no back-off.
A4: a key that fails is woken by its own writes.
A11: repairs that another controller reverts know no back-off.
A13: a key that was refused for long is tried again too late.
C1: pods that end again and again are replaced without back-off.
C2: nothing wakes a key when the clock is put right.
C3: children of objects whose definition was deleted stay.
C4: not explained yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.neighbours.kinds import Column
    from tests.neighbours.sickness import Sickness

KNOWN: Final[Mapping[str, Mapping[str, str]]] = {
    "a quota of one pod": {"RayCluster": "A13", "RayJob": "A13"},
    "a webhook denies what the kind creates": {
        "RayCluster": "A13",
        "RayJob": "A13",
        "RayCronJob": "A13",
    },
    "a webhook denies services": {"RayCluster": "A13", "RayJob": "A13"},
    "a webhook denies in varying words": {"RayCluster": "A4", "RayJob": "A4", "RayCronJob": "A4"},
    "a webhook is down for what the kind creates": {
        "RayCluster": "A2",
        "RayJob": "A2",
        "RayCronJob": "A2",
    },
    "a webhook is down for pods": {"RayCluster": "A2", "RayJob": "A2", "RayCronJob": "A2"},
    "a webhook is down for services": {"RayCluster": "A2", "RayJob": "A2", "RayCronJob": "A2"},
    "a webhook is down for updates of the kind": {
        "RayCluster": "A2",
        "RayJob": "A2",
        "RayCronJob": "A2",
    },
    "no right to create what the kind creates": {
        "RayCluster": "A13",
        "RayJob": "A13",
        "RayCronJob": "A13",
    },
    "no right to create services": {"RayCluster": "A13", "RayJob": "A13"},
    "no right to write the kind's status": {
        "RayCluster": "A13",
        "RayJob": "A13",
        "RayCronJob": "A2",
    },
    "what the kind creates is too large": {
        "RayCluster": "A13",
        "RayJob": "A13",
        "RayCronJob": "A13",
    },
    "a webhook is down for deletions": {"RayCluster": "A2"},
    "no right to delete pods": {"RayCluster": "A4"},
    "each status conflicts": {"RayCluster": "A13", "RayJob": "A13"},
    "creates are never answered": {"RayCluster": "A2", "RayJob": "A2", "RayCronJob": "A2"},
    "updates are never answered": {"RayCluster": "A2"},
    "requests to create are lost": {"RayCluster": "A2", "RayJob": "A2", "RayCronJob": "A2"},
    "pods are evicted again and again": {"RayCluster": "C1", "RayJob": "C1", "RayCronJob": "C1"},
    "pods are deleted as soon as they run": {
        "RayCluster": "C1",
        "RayJob": "C1",
        "RayCronJob": "C1",
    },
    "another controller reverts services": {
        "RayCluster": "A11",
        "RayJob": "A11",
        "RayCronJob": "A11",
    },
    "another controller reverts metadata": {
        "RayCluster": "A11",
        "RayJob": "A11",
        "RayCronJob": "A11",
    },
    "another operator writes the status": {
        "RayCluster": "A11",
        "RayJob": "A11",
        "RayCronJob": "A11",
    },
    "410 in place of each event of one namespace": {"RayJob": "C4"},
    "the clock is 10 h behind": {"RayCronJob": "C2"},
    "the definition is deleted and created again": {"RayCluster": "C3"},
}
"""Points by sickness and kind."""


def known_fault(sickness: Sickness, column: Column) -> str:
    """Return the point because of which this cell fails; empty if it is to pass."""
    return KNOWN.get(sickness.name, {}).get(str(column), "")
