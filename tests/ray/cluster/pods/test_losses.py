"""Pods that are lost again and again are replaced with back-off."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import RayCluster
from controller.ray.cluster import RayClusterKind
from controller.runtime.plan import Plan, StatusPatch
from tests.ray.cluster.support import (
    NOW,
    cluster,
    head,
    manifest,
    pod,
    reads,
    with_children,
    with_meta,
    with_status,
    writes,
)

EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}


def made_at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def worker(name: str, **more: Any) -> Pod:
    return pod(f"example-workers-worker-{name}", **{"created": made_at(0), **more})


def group(replicas: int, **fields: Any) -> RayCluster:
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0] |= {"replicas": replicas, **fields}
    return cluster(raw)


@dataclass
class Life:
    """A cluster that is planned for again and again, with what the plans remember."""

    obj: RayCluster
    memory: Any = None
    last: Plan | None = None
    kind: RayClusterKind = field(default_factory=RayClusterKind)

    def plan(self, seconds: float, *pods: Pod, made: tuple[Pod, ...] = ()) -> list[str]:
        """The writes about pods at that time, without names."""
        kept = with_children(reads(self.obj, *pods))
        kept.history, kept.made = self.memory, made
        seen = self.kind.observe("default/example", kept)
        assert seen is not None
        self.last = self.kind.plan(seen, NOW + timedelta(seconds=seconds))
        self.memory = self.last.memory
        return [
            text.rpartition("-")[0].replace(" Pod example-", " ")
            for text in writes(self.last)
            if " Pod " in text
        ]

    @property
    def wait(self) -> float | None:
        assert self.last is not None
        return self.last.requeue_after

    @property
    def ready(self) -> tuple[str, str]:
        listed = self.status.wanted["conditions"]
        return next((c["reason"], c["message"]) for c in listed if c["type"] == "Ready")

    @property
    def status(self) -> StatusPatch:
        assert self.last is not None
        assert self.last.status is not None
        return self.last.status

    @property
    def note(self) -> str:
        """What is told of the one write about a pod."""
        assert self.last is not None
        of_pods = (w for stage in self.last.stages for w in stage if w.target.resource is PODS)
        (event,) = (write.on_success for write in of_pods)
        assert event is not None
        return event.note

    def lose(self, seconds: float, name: str, **more: Any) -> list[str]:
        """See a worker that was just made, then that it has ended; what follows at once."""
        self.plan(seconds, head(), worker(name, created=made_at(seconds)))
        ended = worker(name, created=made_at(seconds), **(more or EVICTED))
        return self.plan(seconds + 1, head(), ended)


CREATED, DELETED = ["create workers-worker"], ["delete workers-worker"]


def test_a_replacement_that_is_lost_soon_is_kept_and_replaced_after_20_s_40_s_up_to_5_min():
    life = Life(group(1))
    life.lose(0, "a0")
    waits: list[float | None] = []
    seconds = 2.0
    for number in range(1, 9):
        ended = worker(f"a{number}", created=made_at(seconds), **EVICTED)
        assert life.lose(seconds, f"a{number}") == []
        waits.append(life.wait)
        assert life.wait is not None
        seconds += 1 + life.wait
        assert life.plan(seconds - 0.1, head(), ended) == []
        assert life.plan(seconds, head(), ended) == DELETED
        assert life.plan(seconds + 0.1, head()) == CREATED
        seconds += 0.2
    assert waits == [20, 40, 80, 160, 300, 300, 300, 300]


def test_pods_of_a_drained_node_are_replaced_at_once_however_often_it_is_looked_at():
    life = Life(group(3))
    names = ["a", "b", "c"]
    life.plan(0, head(), *map(worker, names))
    going = worker("a", terminating=True)
    life.plan(1, head(), going, worker("b"), worker("c"))
    life.plan(2, head(), worker("b"), worker("c"))
    new = worker("d", created=made_at(2))
    assert life.plan(3, head(), new, worker("b", terminating=True), worker("c")) == []
    assert life.plan(4, head(), new) == CREATED * 2
    assert life.wait is None


def test_what_the_operator_deletes_is_no_loss():
    life = Life(group(2))
    for second in range(0, 40, 4):
        names = [f"a{second}", "b"]
        life.obj = group(2)
        life.plan(second, head(), *map(worker, names))
        life.obj = group(1, scaleStrategy={"workersToDelete": [worker(names[0]).metadata.name]})
        assert life.plan(second + 1, head(), *map(worker, names)) == DELETED
        life.plan(second + 2, head(), worker(names[0], terminating=True), worker(names[1]))
        life.plan(second + 3, head(), worker(names[1]))
        assert life.memory.losses == {}


def test_a_pod_that_lived_for_long_is_replaced_at_once():
    life = Life(group(1))
    for minute in range(0, 60, 11):
        made = made_at(60 * minute)
        life.plan(60 * minute, head(), worker(f"a{minute}", created=made))
        ended = worker(f"a{minute}", created=made, **EVICTED)
        assert life.plan(60 * minute + 600, head(), ended) == DELETED


def test_after_a_quarter_of_an_hour_without_a_loss_it_begins_anew():
    life = Life(group(1))
    life.lose(0, "a")
    life.lose(2, "b")
    assert life.wait == 20
    life.plan(920, head(), worker("c", created=made_at(919)))
    assert life.plan(921, head(), worker("c", created=made_at(919), **EVICTED)) == DELETED


def test_a_clock_that_goes_back_holds_nothing_for_longer():
    life = Life(group(1))
    life.lose(0, "a")
    life.lose(2, "b")
    life.plan(-36_000, head(), worker("b", created=made_at(2), **EVICTED))
    assert life.wait == 20


def test_pods_that_are_gone_before_they_were_seen_count():
    life = Life(group(1))
    life.plan(0, head())
    for second in range(1, 3):
        made = worker(f"a{second}", created=made_at(second))
        found = life.plan(second, head(), made=(made,))
    assert found == []
    assert life.wait == 20


def test_ended_pods_that_are_kept_go_first_when_the_group_shrinks_or_they_are_named():
    life = Life(group(2))
    life.plan(0, head(), worker("a"), worker("b"))
    life.plan(1, head(), worker("a"))
    life.plan(2, head(), worker("a"), worker("c", created=made_at(2)))
    ended = worker("c", created=made_at(2), **EVICTED)
    assert life.plan(3, head(), worker("a"), ended) == []
    before = life.memory
    life.obj = group(1)
    life.plan(4, head(), worker("a"), ended)
    assert life.last is not None
    assert [w for w in writes(life.last) if "Pod" in w] == ["delete Pod example-workers-worker-c"]
    life.obj, life.memory = group(2), before
    life.obj = group(2, scaleStrategy={"workersToDelete": [ended.metadata.name]})
    assert life.plan(4, head(), worker("a"), ended) == DELETED


def test_workers_are_not_replaced_before_a_head_that_is_lost_again_and_again_is_ready():
    life = Life(group(1))
    life.plan(0, head("example-head-a", created=made_at(0)), worker("a"))
    assert life.plan(1, worker("a")) == ["create head"]
    life.plan(2, head("example-head-b", created=made_at(2)), worker("a"))
    ended = head("example-head-b", created=made_at(2), **EVICTED)
    assert life.plan(3, ended, worker("a", **EVICTED)) == []
    assert life.wait == 20
    assert life.plan(23, ended, worker("a", **EVICTED)) == ["delete head"]
    assert life.plan(24, worker("a", **EVICTED)) == ["create head"]
    young = head("example-head-c", created=made_at(24), phase="Pending")
    assert life.plan(25, young, worker("a", **EVICTED)) == []
    well = head("example-head-c", created=made_at(24))
    assert life.plan(26, well, worker("a", **EVICTED)) == DELETED


@pytest.mark.parametrize(("phase", "looks"), [("Failed", 0), ("Succeeded", 0), ("Running", 1)])
def test_a_gone_head_is_looked_up_unless_it_had_ended_for_good(phase: str, looks: int):
    life = Life(with_status(group(0), {"head": {"podName": "example-head-a"}}))
    life.plan(0, head("example-head-a", created=made_at(0)))
    life.plan(1, head("example-head-a", phase=phase))
    found = life.plan(2)
    assert life.last is not None
    assert len(life.last.lookups) == looks
    assert found == ([] if looks else ["create head"])
    life.obj = with_status(group(0), {"head": {"podName": "example-head-b"}})
    life.plan(3)
    assert len(life.last.lookups) == 1, "another head, of which nothing is known"


def test_workers_are_not_made_while_a_deleted_head_waits():
    life = Life(group(1))
    for second in (0, 2):
        life.plan(second, head(f"example-head-{second}", created=made_at(second)))
        found = life.plan(second + 1)
    assert found == []
    assert life.wait == 20


def test_hosts_of_a_replica_count_as_one_and_the_ended_one_stays():
    obj = group(2, numOfHosts=2)

    def hosts(name: str, second: int, **first: Any) -> list[Pod]:
        labels = {
            "ray.io/worker-group-replica-name": name,
            "ray.io/worker-group-replica-index": "0",
        }
        return [
            worker(
                f"{name}{number}",
                created=made_at(second),
                labels={**labels, "ray.io/replica-host-index": str(number)},
                **(first if not number else {}),
            )
            for number in range(2)
        ]

    life = Life(obj)
    life.plan(0, head(), *hosts("r1", 0), *hosts("r2", 0))
    assert life.plan(1, head(), *hosts("r1", 0, **EVICTED), *hosts("r2", 0)) == DELETED * 2
    assert life.plan(2, head(), *hosts("r2", 0)) == CREATED * 2
    life.plan(3, head(), *hosts("r3", 3), *hosts("r2", 0))
    assert life.plan(4, head(), *hosts("r3", 3, **EVICTED), *hosts("r2", 0)) == DELETED
    kept = hosts("r3", 3, **EVICTED)[:1]
    assert life.wait == 20
    assert life.plan(5, head(), *kept, *hosts("r2", 0)) == []
    assert life.plan(24, head(), *kept, *hosts("r2", 0)) == DELETED
    assert life.plan(25, head(), *hosts("r2", 0)) == CREATED * 2


def test_the_first_cause_quotes_the_pod_and_says_when_the_next_one_is_made():
    life = Life(group(1))
    life.lose(0, "a")
    assert life.ready[1].endswith("; it is replaced")
    life.lose(2, "b")
    said = life.ready
    words = (
        "group workers: pod example-workers-worker-b has ended (Evicted): The node was low on "
        "memory; pods were lost 2 times in a row soon after they were made, so that they are not "
        "replaced before 2026-08-20T10:00:23Z"
    )
    assert said == ("Evicted", words)
    life.plan(24, head(), worker("c", created=made_at(23), ready=False))
    assert life.ready == said, "until a replacement is ready"
    life.plan(25, head(), worker("c", created=made_at(23)))
    assert life.ready[0] == "AllPodsReady"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("", "was deleted by another client; .*names the client that deleted it or.*changed its"),
        ("EvictionByEvictionAPI", r"was evicted through the API.*\(EvictionByEvictionAPI: why\)"),
        ("PreemptionByScheduler", "was preempted by the scheduler.*priorityClassName"),
        ("DeletionByTaintManager", "because of a taint of its node.*tolerate the taint"),
        ("Another", r"was deleted by another client \(Another: why\)"),
    ],
)
def test_deletions_are_named_with_whoever_is_known(reason: str, words: str):
    life = Life(group(1))
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "why"}
    life.lose(0, "a")
    life.lose(2, "b", terminating=True, conditions=[target] if reason else [])
    life.plan(4, head())
    name, message = life.ready
    assert name == "PodDeleted"
    assert re.search(words, message), message


def test_pods_that_are_lost_again_are_reported_in_equal_words_and_in_a_status_that_settles():
    life, told = Life(group(1)), list[tuple[str, str, float]]()
    seconds = 0.0
    for number in range(4):
        made, status = life.lose(seconds, f"a{number}"), life.status
        seconds += 1 + (life.wait or 0.0)
        if not made:
            ended = worker(f"a{number}", created=made_at(seconds), **EVICTED)
            life.plan(seconds, head(), ended)
        deleted = life.note
        life.plan(seconds + 0.1, head())
        told.append((deleted, life.note, status.settles))
        seconds += 0.2
    (first_deleted, first_created, at_once), *again = told
    assert "example-workers-worker-a0" in first_deleted
    assert "example-workers-worker-" in first_created
    assert at_once == 0.0
    assert len(set(again)) == 1
    assert "example-workers" not in str(again)
    assert again[0][2] > 0.0


def stored(life: Life) -> RayCluster:
    """The cluster after its last status was stored."""
    return with_status(life.obj, dict(life.status.wanted))


def test_an_edit_new_trouble_and_the_end_of_trouble_are_told_soon():
    life = Life(group(1))
    life.lose(0, "a0")
    assert life.status.settles == 0, "the first loss"
    well = worker("a1", created=made_at(2))
    life.plan(2, head(), well)
    assert life.status.settles == 0, "its end"
    for number in range(1, 6):
        life.lose(2 * number, f"a{number}")
    told = life.obj = stored(life)
    life.plan(20, head(), worker("a6", created=made_at(20), phase="Pending"))
    assert life.status.settles == 75
    life.obj = with_meta(told, generation=2)
    life.plan(20, head(), worker("a6", created=made_at(20), phase="Pending"))
    assert life.status.settles == 5, "an edit"
    life.obj = told
    life.plan(20, head(), worker("a6", created=made_at(20)))
    assert life.status.settles == 5, "ready"
    life.obj = stored(life)
    life.plan(21, head(), worker("a6", created=made_at(20)))
    assert life.status.settles == 5, "what changes while it is ready"
    life.obj, before = told, life.memory
    life.plan(22, head(), worker("a7", created=made_at(22), phase="Pending"))
    assert [each.reason for each in life.status.events] == ["PodDeleted"]
    assert life.status.settles == 5, "another reason"
    life.memory = before
    life.plan(20, head(), worker("a6", created=made_at(20), **EVICTED))
    assert life.status.settles == 75
    ended = head(**EVICTED)
    life.plan(20, ended, worker("a6", created=made_at(20), **EVICTED))
    assert [each.note for each in life.status.events], "another component"
    assert life.status.settles == 5


def test_another_object_that_is_not_as_specified_is_told_soon():
    life = Life(group(3))
    for number in range(6):
        life.lose(2 * number, f"a{number}")
    coming = worker("a6", created=made_at(20), phase="Pending")
    moved = [worker(name, group="other") for name in ("b", "c")]
    life.plan(20, head(), coming, moved[0])
    life.obj = stored(life)
    life.plan(20, head(), coming, moved[0])
    assert life.status.settles == 75
    life.plan(20, head(), coming, *moved)
    assert life.status.settles == 5


def test_trouble_that_goes_to_and_fro_is_told_of_once_until_the_cluster_is_ready_or_edited():
    life = Life(group(1))
    ended = worker("a", created=made_at(0), **EVICTED)
    heads = {"head": head(created=made_at(0), **EVICTED), "group workers": head()}

    def told(seconds: float, first: str) -> list[str]:
        life.plan(seconds, heads[first], ended)
        life.obj = stored(life)
        assert life.ready[1].startswith(f"{first}: ")
        return [each.reason for each in life.status.events]

    life.plan(0, head(), worker("a", created=made_at(0)))
    assert told(1, "head") == ["Evicted"]
    assert told(2, "group workers") == ["Evicted"]
    assert told(3, "head") == []
    assert told(4, "group workers") == []
    life.obj = with_meta(life.obj, generation=2)
    assert told(5, "head") == ["Evicted"], "again after an edit"
    assert told(6, "group workers") == ["Evicted"]
    assert told(7, "head") == []
    assert told(8, "group workers") == []
    life.plan(9, head(), worker("b", created=made_at(9)))
    assert [each.reason for each in life.status.events] == ["RayClusterReady"]
    life.obj = stored(life)
    life.plan(10, head(), worker("b", created=made_at(9)))
    assert told(11, "head") == ["Evicted"]


def test_what_a_first_loss_changes_is_told_at_once_and_details_of_its_replacement_settle():
    life = Life(group(1))
    life.plan(0, head(), worker("a", created=made_at(0)))
    life.obj = stored(life)
    ends = made_at(60)
    life.plan(1, head(), worker("a", created=made_at(0), terminating=True, ends=ends))
    assert (life.status.events, life.status.settles) == ((), 0), "it is no longer ready"
    life.obj = stored(life)
    life.plan(2, head(), worker("b", created=made_at(2), phase="Pending"))
    assert life.status.settles == 5
