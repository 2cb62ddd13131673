"""Sections of the debug page: bounded, whatever others have written into what they show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from controller.runtime.debug import LIMIT, sections
from controller.runtime.expectations.owners import Owner
from controller.runtime.expectations.snapshot import ExpectationSnapshot
from controller.runtime.leaderelection.election import ElectionSnapshot

HUGE = "x" * 1_000_000
VALUE = 'not "hunter"'


def shown(entry: ExpectationSnapshot) -> Any:
    """How the section shows expectations that are full of this entry."""

    def snapshot(limit: int) -> list[ExpectationSnapshot]:
        return [entry] * limit

    numbers = SimpleNamespace(owners=1, pending=1, unknown=0, expectations=1000)
    expectations = SimpleNamespace(statistics=lambda: numbers, snapshot=snapshot)
    return sections.expectations(cast("Any", expectations)).entries


def entry(*owners: Owner, kept: str = "", error: str = "") -> ExpectationSnapshot:
    return ExpectationSnapshot("pods default/a", owners, "", kept, 1.0, 0, error)


def test_a_lease_is_shown_shortly_and_without_what_its_error_quotes():
    seen = ElectionSnapshot(leads=False, time_left=0.0, holder=HUGE, problem=VALUE)
    leader = sections.leader(seen)
    assert (len(leader.holder), leader.problem) == (253, 'not ""')


def test_expectations_are_as_many_as_a_list_holds_with_as_many_owners():
    owners = [Owner(str(each), f"default/{each}", "c") for each in range(1000)]
    listed = shown(entry(*owners))
    assert (listed.total, len(listed.items)) == (1000, LIMIT)
    assert len(listed.items[0].owners) == LIMIT


def test_an_expectation_quotes_no_value():
    (item, *_) = shown(entry(kept=VALUE, error=VALUE)).items
    assert (item.kept, item.cause) == ('not ""', 'not ""')
