"""Which copies are created and which retire, as tables of copies."""

from __future__ import annotations

import msgspec

from controller.ray.api.raycluster import RayCluster
from tests.ray.fleet.support import (
    LONG_AGO,
    NEW,
    NOW,
    OLD,
    THIRD,
    created,
    deleted,
    fleet,
    goal,
    member,
    plan,
    writes,
)


def names(*clusters: object) -> list[str]:
    return [each.metadata.name for each in clusters]  # type: ignore[attr-defined]


def unstamped(cluster: RayCluster) -> RayCluster:
    """The copy without a record of the template that it was made from."""
    meta = msgspec.structs.replace(cluster.metadata, annotations={})
    return msgspec.structs.replace(cluster, metadata=meta)


def test_a_copy_that_is_still_being_deleted_counts_for_the_budget():
    old = [member(0, OLD, terminating=True), member(1, OLD), member(2, OLD)]
    assert writes(plan(fleet(NEW), *old, member(0, NEW))) == []
    assert created(plan(fleet(NEW), *old[1:], member(0, NEW))) == [1]


def test_with_a_larger_surge_more_copies_are_made_at_once():
    old = [member(index, OLD) for index in range(4)]
    assert created(plan(fleet(NEW, 4, maxSurge="50%"), *old)) == [0, 1]


def test_without_a_surge_an_old_copy_goes_first_and_its_index_is_filled_next():
    old = [member(index, OLD) for index in range(3)]
    strategy = {"maxSurge": 0, "maxUnavailable": 1}
    made = plan(fleet(NEW, **strategy), *old)
    assert (created(made), deleted(made)) == ([], names(old[0]))
    gone = [member(0, OLD, terminating=True), *old[1:]]
    assert writes(plan(fleet(NEW, **strategy), *gone)) == []
    assert created(plan(fleet(NEW, **strategy), *old[1:])) == [0]
    coming = member(0, NEW, ready=False)
    assert writes(plan(fleet(NEW, **strategy), *old[1:], coming)) == []


def test_an_old_copy_goes_first_whose_replacement_is_there_though_not_ready():
    old = [member(index, OLD) for index in range(3)]
    made = plan(fleet(NEW, maxUnavailable=1), *old, member(2, NEW, ready=False))
    assert deleted(made) == names(old[2])


def test_a_copy_of_an_unknown_template_is_not_replaced_while_its_index_has_another_outdated_one():
    kept = unstamped(member(0, THIRD))
    made = plan(fleet(NEW), kept, member(1, OLD), member(2, OLD))
    assert created(made) == [1]
    made = plan(fleet(NEW, maxSurge=2), kept, *(member(index, OLD) for index in range(3)))
    assert created(made) == [1]


def test_a_lost_copy_is_made_again_in_a_paused_upgrade_whose_surge_is_free():
    there = [member(0, OLD), member(0, NEW), member(1, OLD)]
    assert created(plan(fleet(NEW, paused=True), *there)) == [2]


def test_a_copy_that_somebody_deletes_in_a_paused_upgrade_is_made_of_the_new_template():
    there = [member(0, OLD, terminating=True), member(1, OLD), member(2, OLD)]
    assert created(plan(fleet(NEW, paused=True), *there)) == [0]


def test_a_paused_upgrade_replaces_nothing():
    old = [member(index, OLD) for index in range(3)]
    assert writes(plan(fleet(NEW, paused=True), *old)) == []
    assert writes(plan(fleet(NEW, paused=True), *old, member(0, NEW))) == []


def test_a_rollback_waits_for_the_name_of_a_copy_that_retires_already():
    going = member(0, OLD, terminating=True)
    there = [going, member(0, NEW), member(1, OLD), member(2, OLD)]
    assert writes(plan(fleet(OLD), *there)) == []
    (create,) = writes(plan(fleet(OLD), *there[1:]))
    assert create.target.name == going.metadata.name


def test_of_two_outdated_copies_of_an_index_the_newer_goes():
    both = [member(2, OLD, since=LONG_AGO), member(2, NEW, since=NOW)]
    made = plan(fleet(THIRD), member(0, OLD), member(1, OLD), *both)
    assert deleted(made) == names(both[1])


def test_a_copy_beyond_the_number_that_is_terminating_is_not_deleted_again():
    there = [member(0), member(1), member(2, terminating=True)]
    assert deleted(plan(fleet(replicas=2), *there)) == []


def test_scaling_down_in_an_upgrade_makes_room_before_the_upgrade_goes_on():
    there = [member(index, OLD) for index in range(4)]
    made = plan(fleet(NEW, replicas=2), *there)
    assert (created(made), deleted(made)) == ([], names(there[3], there[2]))
    assert created(plan(fleet(NEW, replicas=2), *there[:2])) == [0]


def test_no_copy_is_created_or_deleted_while_the_outcome_of_a_write_is_unknown():
    old = [member(index, OLD) for index in range(3)]
    assert writes(plan(fleet(NEW), *old, pending=frozenset({"rayclusters"}))) == []


def test_the_name_of_a_copy_follows_from_fleet_index_and_template():
    first, again, other = member(1, NEW), member(1, NEW), member(1, OLD)
    assert first.metadata.name == again.metadata.name != other.metadata.name
    assert goal(fleet(NEW)).template_hash != goal(fleet(OLD)).template_hash
