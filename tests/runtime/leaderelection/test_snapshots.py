"""An election as a person sees it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controller.runtime.debug import Leader
from controller.runtime.election import AlwaysLeader, ThreadedElection


def test_without_a_lease_the_process_leads_for_ever():
    assert AlwaysLeader().snapshot() == Leader(leads=True, remaining=None)


def test_without_a_candidate_no_process_leads():
    candidate: Any = None  # made only when the election begins
    found = ThreadedElection(candidate).snapshot()
    assert found == Leader(leads=False, remaining=0.0)
    assert found.leads is False


def candidate_with(**facts: Any) -> ThreadedElection:
    candidate: Any = None
    election = ThreadedElection(candidate)
    usual = {"is_leader": lambda: True, "time_left": lambda: 9.8765, "holder": "a", "problem": ""}
    election._elector = SimpleNamespace(**usual | facts)  # type: ignore[assignment]
    return election


def test_the_candidate_says_who_leads_for_how_long_and_what_is_wrong():
    assert candidate_with(problem="refused").snapshot() == Leader(True, 9.877, "a", "refused")


def test_a_lease_is_shown_shortly_and_without_what_its_error_quotes():
    shown = candidate_with(holder="x" * 1_000_000, problem='not "hunter"').snapshot()
    assert (len(shown.holder), shown.problem) == (253, 'not ""')
