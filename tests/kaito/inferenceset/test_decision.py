"""Which Workspaces of an InferenceSet are created and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest

from controller.kaito.inferenceset.observe import Replica, replica_names
from controller.kaito.inferenceset.plan import SetDecision, next_changes
from controller.kube.objects import ObjectMeta

META = ObjectMeta(name="models", namespace="default", uid="s-1")
NAMES = tuple(islice(replica_names(META), 8))


def decide(desired: int, present: Sequence[Replica], batch: int = 64) -> SetDecision:
    """The decision when all names are free that no replica has."""
    names = {each.name for each in present}
    free = [name for name in islice(replica_names(META), desired) if name not in names]
    return next_changes(desired, present, free, batch)


def replicas(*given: str) -> list[Replica]:
    """Replicas in words: `old ready`, `new`, `old terminating`."""
    return [
        Replica(
            f"{words.split()[0]}-{number}",
            ready="ready" in words,
            terminating="terminating" in words,
            on_old_image="old" in words,
        )
        for number, words in enumerate(given)
    ]


@pytest.mark.parametrize(
    ("given", "desired", "deleted"),
    [
        (["old ready", "old ready", "old ready", "new"], 3, []),
        (["old ready", "old ready", "old ready", "new ready"], 3, ["old-0"]),
        (["old ready", "old ready", "new ready", "new ready"], 2, ["old-0", "old-1"]),
        (["old ready", "new ready", "new ready", "new ready"], 1, ["old-0", "new-1", "new-2"]),
        (["old terminating", "old ready", "old ready"], 2, []),
        (["old", "new ready", "new ready"], 2, ["old-0"]),
        (["old ready", "new ready"], 0, ["old-0", "new-1"]),
    ],
    ids=[
        "waits for the newcomer",
        "retires an old one when the newcomer serves",
        "prefers old ones",
        "deletes new ones if there are not old ones enough",
        "counts what is being deleted",
        "deletes what does not serve first",
        "scales to zero",
    ],
)
def test_what_is_deleted_is_what_kaito_deletes(given: list[str], desired: int, deleted: list[str]):
    decision = decide(desired, replicas(*given))
    assert [each.name for each in decision.delete] == deleted
    assert decision.create == ()


@pytest.mark.parametrize(
    ("given", "desired", "deleted"),
    [
        (["new ready", "new"], 1, ["new-1"]),
        (["new", "new ready", "new"], 2, ["new-0"]),
        (["new terminating", "new ready", "new"], 1, ["new-2"]),
        (["new terminating", "new terminating", "new ready"], 0, ["new-2"]),
    ],
)
def test_scaling_down_keeps_what_serves(given: list[str], desired: int, deleted: list[str]):
    decision = decide(desired, replicas(*given))
    assert [each.name for each in decision.delete] == deleted


def test_missing_replicas_are_created_under_the_names_of_their_indexes():
    assert decide(3, []) == SetDecision(create=NAMES[:3])
    present = [Replica(NAMES[1])]
    assert decide(3, present).create == (NAMES[0], NAMES[2])
    assert decide(3, [Replica(name) for name in NAMES[:3]]) == SetDecision()


def test_a_replica_that_is_being_deleted_is_replaced_when_it_is_gone():
    present = [Replica(NAMES[0], terminating=True), Replica(NAMES[1])]
    assert decide(2, present) == SetDecision()
    assert decide(2, present[1:]).create == (NAMES[0],)


def test_in_batches_the_same_replicas_are_deleted():
    given = replicas("old ready", "new", "new ready", "old", "new", "new ready")
    at_once = {each.name for each in decide(2, given).delete}
    gone: set[str] = set()
    for _ in range(6):
        seen = [
            replace(each, terminating=True, ready=False) if each.name in gone else each
            for each in given
        ]
        gone |= {each.name for each in decide(2, seen, batch=1).delete}
    assert gone == at_once


def test_names_are_those_of_the_set_and_never_the_same_twice():
    names = list(islice(replica_names(META), 2000))
    assert len(set(names)) == 2000
    assert all(name.startswith("models-") and len(name) == len("models-") + 5 for name in names)
    other = ObjectMeta(name="models", namespace="default", uid="s-2")
    assert not set(islice(replica_names(other), 100)) & set(names[:100])
