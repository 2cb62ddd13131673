"""An election as a person sees it."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from controller.runtime.election import AlwaysLeader, ElectionSnapshot, ThreadedElection


def test_without_a_lease_the_process_leads_for_ever():
    assert AlwaysLeader().snapshot() == ElectionSnapshot(leads=True, time_left=math.inf)


def test_without_a_candidate_no_process_leads():
    candidate: Any = None  # made only when the election begins
    found = ThreadedElection(candidate).snapshot()
    assert found == ElectionSnapshot(leads=False, time_left=0.0, holder="", problem="")
    assert found.leads is False


def test_the_candidate_says_who_leads_for_how_long_and_what_is_wrong():
    candidate: Any = None
    election = ThreadedElection(candidate)
    election._elector = SimpleNamespace(  # type: ignore[assignment]
        is_leader=lambda: True, time_left=lambda: 7.5, holder="a", problem="refused"
    )
    assert election.snapshot() == ElectionSnapshot(True, 7.5, "a", "refused")
