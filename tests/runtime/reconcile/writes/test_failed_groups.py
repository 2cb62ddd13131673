"""Writes that keep failing take turns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.plan import Failure, Plan, Target
from controller.runtime.reconcile.writes.failed_groups import FailedGroups
from tests.runtime.kit import create, delete, patch, target

if TYPE_CHECKING:
    from controller.runtime.plan import Write

HEAD, WORKER = (replace(create(name), target=target(name, scope)) for name, scope in
                (("h", "head"), ("w", "worker")))  # fmt: skip


def failure(write: Write, message: str = "no") -> Failure:
    return Failure(write, "Forbidden", message)


def after(*failed: Write, plan: Plan, generation: int = 1) -> FailedGroups:
    """The groups of the reconcile that follows one in which these writes failed."""
    groups = FailedGroups(1)
    for write in failed:
        groups.failed(failure(write))
    groups.begin(plan, generation)
    return groups


def test_creates_of_one_scope_are_alike_and_other_writes_are_not():
    plan = Plan(stages=((create("a"), create("b"), patch("c"), patch("d")),))
    groups = after(create("a"), patch("c"), plan=plan)
    assert [*groups.failures] == [
        ("create", CONFIG_MAPS, "children", ""),
        ("update", CONFIG_MAPS, "children", "c"),
    ]
    assert groups.probe((patch("d"), create("b"), create("a"))) == create("b")
    assert groups.held(patch("c")) == failure(patch("c"))
    assert groups.held(patch("d")) is None
    assert groups.held(replace(patch("c"), target=Target(PODS, "default", "c"))) is None


def test_a_write_that_waits_fails_as_its_group_did_last():
    both = Plan(stages=((HEAD, WORKER),))
    groups = after(WORKER, HEAD, plan=both)
    sibling = replace(HEAD, target=target("h2", "head"))
    assert groups.held(sibling) == failure(sibling)
    assert groups.held(WORKER) is None, "it has its turn"


def test_each_group_has_its_turn():
    both = Plan(stages=((HEAD, WORKER),))
    groups = after(HEAD, WORKER, plan=both)
    turns: list[Write | None] = []
    for _ in range(3):
        probe = groups.probe((HEAD, WORKER))
        turns.append(probe)
        assert probe is not None
        groups.failed(failure(probe))
        groups.begin(both, 1)
    assert turns == [HEAD, WORKER, HEAD]


def test_what_belongs_to_a_later_stage_waits_for_the_first_stage_that_fails():
    staged = Plan(stages=((patch("first"),), (HEAD,), (WORKER,)))
    groups = after(WORKER, HEAD, plan=staged)
    assert groups.probe((HEAD,)) == HEAD
    assert groups.probe((WORKER,)) is None
    assert groups.held(WORKER) == failure(WORKER)


def test_independent_writes_take_turns_with_the_first_stage_that_fails():
    plan = Plan(stages=((HEAD,),), independent=(WORKER,))
    assert after(WORKER, HEAD, plan=plan).probe((WORKER,)) == WORKER
    assert after(WORKER, plan=Plan(independent=(WORKER,))).probe((WORKER,)) == WORKER


def test_nothing_is_held_or_tried_first_as_long_as_nothing_has_failed():
    groups = after(plan=Plan(stages=((HEAD,),)))
    assert groups.probe((HEAD, WORKER)) is None
    assert groups.held(HEAD) is None


def test_a_success_of_the_group_that_was_tried_releases_all():
    groups = after(HEAD, WORKER, plan=Plan(stages=((HEAD, WORKER),)))
    groups.succeeded(patch("other"))
    assert groups.held(WORKER) == failure(WORKER)
    groups.succeeded(HEAD)
    assert groups.held(WORKER) is None
    assert groups.turn is None
    assert groups.failures == {}


def test_a_new_generation_and_a_plan_without_the_write_release_it():
    both = Plan(stages=((HEAD, WORKER),))
    assert after(HEAD, WORKER, plan=both, generation=2).failures == {}
    again = after(HEAD, plan=both, generation=2)
    again.failed(failure(HEAD))
    again.begin(both, 2)
    assert again.probe((HEAD,)) == HEAD
    only = after(HEAD, WORKER, plan=Plan(stages=((WORKER,),)))
    assert [*only.failures.values()] == [failure(WORKER)]


def test_the_last_failure_of_a_group_is_the_one_that_is_reported():
    groups = after(HEAD, WORKER, plan=Plan(stages=((HEAD, WORKER),)))
    groups.failed(failure(WORKER, "still no"))
    assert groups.held(WORKER) == failure(WORKER, "still no")


def test_what_could_not_be_deleted_is_forgotten_once_nobody_plans_to_delete_it():
    a, b, c = delete("a"), delete("b"), delete("c")
    groups = after(a, b, c, plan=Plan(stages=((b,),), independent=(c,)))
    assert groups.undeleted == [b.target, c.target]


def test_what_could_not_be_deleted_comes_last_and_the_one_tried_longest_ago_first_of_these():
    a, b, c, d = delete("a"), delete("b"), delete("c"), delete("d")
    groups = after(c, a, plan=Plan(independent=(a, b, c, d)))
    assert groups.in_order((a, b, c, d)) == [b, d, c, a]
    groups.failed(failure(c))
    assert groups.in_order((a, b, c, d)) == [b, d, a, c]
    assert groups.in_order((c, d)) == [d, c]
