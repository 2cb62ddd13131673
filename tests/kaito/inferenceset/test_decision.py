"""Which Workspaces of an InferenceSet are created and deleted."""

from __future__ import annotations

from collections.abc import Sequence
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


def test_names_are_those_of_the_set_and_never_the_same_twice():
    names = list(islice(replica_names(META), 2000))
    assert len(set(names)) == 2000
    assert all(name.startswith("models-") and len(name) == len("models-") + 5 for name in names)
    other = ObjectMeta(name="models", namespace="default", uid="s-2")
    assert not set(islice(replica_names(other), 100)) & set(names[:100])
