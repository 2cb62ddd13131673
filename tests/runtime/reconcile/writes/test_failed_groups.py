"""Writes that keep failing wait, and take turns; those that fail alike begin slowly."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from controller.kube.errors import Conflict, OutcomeUnknown, Status
from controller.kube.resources import CONFIG_MAPS, PODS, SECRETS
from controller.runtime.failed_groups import (
    WAITS,
    FailedGroups,
    SlowStart,
    WriteOutcome,
    WriteResult,
    group_of,
)
from controller.runtime.plan import Failure, Plan, Target, Write
from tests.runtime.kit import create, delete, patch, status_error, target

HEAD, WORKER = (replace(create(name), target=target(name, scope)) for name, scope in
                (("h", "head"), ("w", "worker")))  # fmt: skip
BOTH = Plan(stages=((HEAD, WORKER),))
STATUS = replace(patch("f"), target=target("f", "status"), subresource="status")


def failure(write: Write, message: str = "no") -> Failure:
    return Failure(write, "Forbidden", message)


def refused(write: Write, message: str = "no") -> WriteResult:
    error = status_error(403, "Forbidden", message=message)
    return WriteResult(write, WriteOutcome.FAILED, error=error)


def conflicting(write: Write) -> WriteResult:
    return WriteResult(write, WriteOutcome.CONFLICT, error=Conflict(Status(409, "Conflict", "")))


def done(write: Write) -> WriteResult:
    return WriteResult(write, WriteOutcome.DONE)


@dataclass
class Turns:
    groups: FailedGroups = field(default_factory=lambda: FailedGroups(1, random.Random(0)))
    now: float = 0.0

    def begin(self, plan: Plan, generation: int = 1, unknown: Sequence[Write] = ()) -> FailedGroups:
        self.now = max(self.now, self.groups.due)
        self.groups.begin(plan, generation, {group_of(STATUS)}, {*map(group_of, unknown)}, self.now)
        return self.groups

    def attempt(self, *results: WriteResult, plan: Plan = BOTH) -> float:
        """Get these results; return the wait, less its jitter."""
        self.begin(plan)
        for result in results:
            self.groups.ended(result, self.now)
        self.groups.end()
        wait = self.groups.due - self.now
        return next((each for each in WAITED if each <= wait < 1.2 * each), 0.0)


WAITED = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)


def after(*failed: Write, plan: Plan, generation: int = 1) -> FailedGroups:
    """The groups of the attempt that follows one in which these writes failed."""
    turns = Turns()
    turns.begin(plan)
    for write in failed:
        turns.groups.ended(refused(write), 0.0)
    return turns.begin(plan, generation)


def test_a_write_that_fails_is_tried_after_1_2_4_and_so_on_up_to_30_seconds():
    turns = Turns()
    waits = [turns.attempt(refused(HEAD)) for _ in range(8)]
    assert waits == [*WAITED, 30.0, 30.0]
    assert 24 * WAITS.cap > 600, "so it costs 24 requests in ten minutes at most"


def test_nothing_that_has_failed_is_sent_before_its_time_whatever_events_arrive():
    turns = Turns()
    turns.attempt(refused(HEAD))
    due = turns.groups.due
    for _ in range(10):
        turns.groups.begin(BOTH, 1, {group_of(STATUS)}, (), due - 0.01)
        assert turns.groups.probe((HEAD, WORKER)) is None
        assert turns.groups.holds(HEAD)
        assert not turns.groups.holds(WORKER), "it has not failed"
        turns.groups.ended(done(WORKER), due - 0.01)
        turns.groups.end()
    assert turns.groups.due == due
    turns.groups.begin(BOTH, 1, {group_of(STATUS)}, (), due)
    assert turns.groups.probe((HEAD, WORKER)) == HEAD


def test_what_fails_while_others_wait_waits_with_them():
    turns = Turns()
    for _ in range(6):
        turns.attempt(refused(HEAD))
    due = turns.groups.due
    turns.groups.begin(BOTH, 1, {group_of(STATUS)}, (), due - 20)
    turns.groups.ended(refused(WORKER), due - 20)
    assert turns.groups.due == due


def test_an_edit_ends_the_wait():
    turns = Turns()
    for _ in range(6):
        turns.attempt(refused(HEAD))
    turns.groups.begin(BOTH, 2, {group_of(STATUS)}, (), turns.now)
    assert not turns.groups.holds(HEAD)
    turns.groups.ended(refused(HEAD), turns.now)
    assert turns.groups.due - turns.now < 1.2


def test_creates_of_one_scope_are_alike_and_other_writes_are_not():
    plan = Plan(stages=((create("a"), create("b"), patch("c"), patch("d")),))
    groups = after(create("a"), patch("c"), plan=plan)
    assert [*groups.failures] == [
        ("create", CONFIG_MAPS, "children", ""),
        ("update", CONFIG_MAPS, "children", "c"),
    ]
    assert groups.probe((patch("d"), create("b"), create("a"))) == create("b")
    assert groups.last_failure(patch("c")) == failure(patch("c"))
    assert not groups.holds(patch("d"))
    assert not groups.holds(replace(patch("c"), target=Target(PODS, "default", "c")))


def test_a_write_that_waits_fails_as_its_group_did_last():
    groups = after(WORKER, HEAD, plan=BOTH)
    sibling = replace(HEAD, target=target("h2", "head"))
    assert groups.holds(sibling)
    assert groups.last_failure(sibling) == failure(sibling)
    assert not groups.holds(WORKER), "it has its turn"
    groups.ended(refused(WORKER, "still no"), 0.0)
    assert groups.last_failure(WORKER) == failure(WORKER, "still no")


def test_each_group_has_its_turn_and_the_status_is_one_of_them():
    turns, order = Turns(), list[str]()
    turns.attempt(refused(HEAD), refused(WORKER), refused(STATUS))
    for _ in range(4):
        groups = turns.begin(BOTH)
        tried = next(each for each in (HEAD, WORKER, STATUS) if group_of(each) == groups.turn)
        assert [groups.holds(each) for each in (HEAD, WORKER, STATUS)].count(False) == 1
        turns.attempt(refused(tried))
        order.append(tried.target.name)
    assert order == ["h", "w", "f", "h"]


def test_what_belongs_to_a_later_stage_waits_for_the_first_stage_that_fails():
    staged = Plan(stages=((patch("first"),), (HEAD,), (WORKER,)))
    groups = after(WORKER, HEAD, plan=staged)
    assert groups.probe((HEAD,)) == HEAD
    assert groups.probe((WORKER,)) is None
    assert groups.holds(WORKER)


def test_all_that_follows_a_commit_waits_for_it():
    plan = Plan(commit=patch("f"), stages=((HEAD,),), independent=(WORKER,))
    groups = after(WORKER, HEAD, patch("f"), plan=plan)
    assert groups.turn == group_of(patch("f"))


def test_a_success_of_the_group_that_was_tried_releases_all_but_not_their_next_wait():
    turns = Turns()
    turns.attempt(refused(HEAD), refused(WORKER))
    groups = turns.begin(BOTH)
    groups.ended(done(patch("other")), turns.now)
    assert groups.holds(WORKER)
    groups.ended(done(HEAD), turns.now)
    assert not groups.holds(WORKER)
    assert groups.failures == {}
    groups.ended(refused(WORKER), turns.now)
    assert groups.due - turns.now >= 2


@pytest.mark.parametrize("tried", [refused(STATUS), conflicting(HEAD)], ids=["status", "conflict"])
def test_a_stored_status_and_the_end_of_a_conflict_release_nothing_else(tried: WriteResult):
    turns = Turns()
    turns.attempt(tried, refused(WORKER))
    groups = turns.begin(BOTH)
    groups.ended(done(tried.write), turns.now)
    assert groups.holds(WORKER)


def test_a_group_of_which_nothing_is_to_be_written_when_its_turn_comes_is_forgotten():
    turns = Turns()
    turns.attempt(refused(STATUS), refused(WORKER))
    turns.attempt()
    assert turns.begin(BOTH).probe((WORKER,)) == WORKER


def test_a_new_generation_and_a_plan_without_the_write_release_it():
    assert after(HEAD, WORKER, plan=BOTH, generation=2).failures == {}
    only = after(HEAD, WORKER, plan=Plan(stages=((WORKER,),)))
    assert [*only.failures] == [group_of(WORKER)]


def test_what_could_not_be_deleted_is_forgotten_once_nobody_plans_to_delete_it():
    a, b, c = delete("a"), delete("b"), delete("c")
    groups = after(a, b, c, plan=Plan(stages=((b,),), independent=(c,)))
    assert groups.undeleted == [b.target, c.target]


def test_what_could_not_be_deleted_comes_last_and_the_one_tried_longest_ago_first_of_these():
    a, b, c, d = delete("a"), delete("b"), delete("c"), delete("d")
    groups = after(c, a, plan=Plan(independent=(a, b, c, d)))
    assert groups.in_order((a, b, c, d)) == [b, d, c, a]
    groups.ended(refused(c), 0.0)
    assert groups.in_order((a, b, c, d)) == [b, d, a, c]
    assert groups.in_order((c, d)) == [d, c]


def test_a_lost_answer_is_sent_again_at_once_and_then_waits():
    turns, lost = Turns(), WriteResult(HEAD, WriteOutcome.UNKNOWN, error=OutcomeUnknown("reset"))
    waits: list[float] = []
    for _ in range(4):
        turns.begin(Plan(), unknown=[HEAD])
        turns.groups.ended(lost, turns.now)
        turns.groups.end()
        wait = turns.groups.due - turns.now
        waits.append(next((each for each in WAITED if each <= wait < 1.2 * each), 0.0))
    assert waits == [0, 1, 2, 4]
    groups = turns.begin(Plan(), unknown=[HEAD])
    assert groups.probe([HEAD]) == HEAD, "although the plan leaves it out"


def test_what_the_store_has_shown_of_a_lost_answer_lets_the_group_go_on():
    lost = WriteResult(HEAD, WriteOutcome.UNKNOWN, error=OutcomeUnknown("reset"))
    turns = Turns()
    turns.attempt(lost)
    turns.attempt(lost)
    turns.groups.begin(BOTH, 1, {group_of(STATUS)}, {group_of(HEAD)}, turns.now)
    assert turns.groups.holds(HEAD)
    another = replace(create("i"), target=target("i", "head"))
    turns.groups.begin(Plan(stages=((another,),)), 1, {group_of(STATUS)}, (), turns.now)
    assert not turns.groups.holds(another)
    turns.groups.end()
    assert turns.groups.tries == 0


@pytest.mark.parametrize("write", [HEAD, delete("h")], ids=["create", "delete"])
def test_what_was_not_done_by_a_live_read_is_planned_anew_and_waits_as_a_failure(write: Write):
    """Nothing is unknown then; a server that fails with 500 would be asked without end."""
    lost = WriteResult(write, WriteOutcome.UNKNOWN, error=OutcomeUnknown("reset"))
    plan = Plan(stages=((write,),))
    turns = Turns()
    assert [turns.attempt(lost, plan=plan) for _ in range(4)] == [0.0, 1.0, 2.0, 4.0]
    turns.groups.begin(plan, 1, (), (), turns.now)
    assert turns.groups.holds(write)


@pytest.mark.parametrize(
    ("failed", "is_held"),
    [
        (create("b"), True),
        (delete("b"), False),
        (replace(create("b"), target=target("b", "another scope")), False),
        (replace(create("b"), target=replace(target("b"), resource=SECRETS)), False),
    ],
    ids=["alike", "another verb", "another scope", "another resource"],
)
async def test_a_failure_holds_up_only_what_is_alike(failed: Write, *, is_held: bool):
    sent: list[Write] = []

    async def send(writes: Sequence[Write]) -> None:
        sent.extend(writes)

    slow_start = SlowStart({})
    slow_start.record_failure(failed)
    await slow_start.run([create("a")], send)
    assert sent == ([] if is_held else [create("a")])
