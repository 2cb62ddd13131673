"""The finalizer: when it is put on, what holds it, and that it always lets go."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import Job
from controller.kube.resources import JOBS, PODS
from controller.ray.api import RayCluster
from controller.ray.api.pod_state import is_head
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.deletion import DEFAULT_TIMEOUT
from controller.ray.settings import RaySettings
from controller.runtime.kind import NAMESPACE_TERMINATING, CreateError
from controller.runtime.plan import NOTHING, Create, Delete, LiveList, MergePatch, Plan
from controller.testing.reads import FakeReads
from tests.ray.cluster.deletion import redis
from tests.ray.cluster.deletion.redis import FINALIZER, JOB, cleanup_job, redis_cluster
from tests.ray.cluster.support import (
    NOW,
    head,
    pod,
    reads,
    unreadable,
    with_meta,
    with_status,
    workers,
    writes,
)
from tests.ray.cluster.support import plan as plan_now

SPECS: dict[str, Callable[[], dict[str, Any]]] = {
    "redis": redis.with_options,
    "legacy": redis.legacy,
    "legacy without address": lambda: redis.legacy(address=False),
    "no fault tolerance": redis.manifest,
    "rocksdb": redis.embedded,
    "invalid": redis.invalid,
    "unparsable": redis.unparsable,
    "headless": redis.headless,
    "invalid options": lambda: redis.with_options(redisAddress=7),
}
IN_REDIS = {"redis", "legacy", "invalid", "unparsable"}
"""Those whose state in Redis can be removed, because what that needs is valid."""
JOBS_SEEN: dict[str, Job | None] = {
    "absent": None,
    "running": cleanup_job(),
    "complete": cleanup_job("Complete"),
    "failed": cleanup_job("Failed"),
    "about to fail": cleanup_job("FailureTarget"),
    "going": cleanup_job(terminating=True),
    "of another": cleanup_job(owner_uid="uid-of-old"),
}
DEADLINE = NOW + timedelta(seconds=DEFAULT_TIMEOUT - 1)  # of what was deleted a second ago
KEY = f"Job/default/{JOB}"
QUOTA = CreateError("Forbidden", "exceeded quota")
GOING = CreateError(NAMESPACE_TERMINATING, "because it is being terminated")
ENABLED, DISABLED = RayClusterKind(), RayClusterKind(RaySettings(redis_cleanup=False))


@cache
def stored(spec: str, *, held: bool, deleted: float | None) -> RayCluster:
    return redis_cluster(SPECS[spec](), held=held, deleted=deleted)


def finalizers_after(made: Plan) -> list[str] | None:
    """The finalizers that the plan's commit writes, None if it has no commit."""
    if made.commit is None:
        return None
    assert isinstance(made.commit, MergePatch)
    assert made.commit.resource_version == "1", "nobody else's finalizer is lost"
    return made.commit.patch["metadata"]["finalizers"]


def told(made: Plan) -> str:
    """Reason and note of the event that goes with the commit."""
    assert made.commit is not None
    event = made.commit.on_success
    return "" if event is None else f"{event.reason}: {event.note}"


def observed(
    obj: RayCluster, *pods: Any, job: Job | None = None, listed: bool = True, **more: Any
) -> FakeReads:
    kept = reads(obj, *pods, listed=listed, **more)
    return kept.add(JOBS, job) if job is not None else kept


def every_write(made: Plan) -> Iterator[Any]:
    return (write for stage in made.stages for write in stage)


def ready_message(made: Plan) -> str:
    assert made.status is not None
    [ready] = [c for c in made.status.wanted["conditions"] if c["type"] == "Ready"]
    assert ready["status"] == "False"
    return f"{ready['reason']}: {ready['message']}"


# -- on a cluster that lives ----------------------------------------------------------------------


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("spec", SPECS)
def test_a_living_cluster_has_the_finalizer_exactly_if_its_state_is_in_redis(
    spec: str, enabled: bool, held: bool
):
    kept = reads(redis_cluster(SPECS[spec](), held=held, finalizers=("theirs",)))
    made = plan_now(kept, ENABLED if enabled else DISABLED)
    after = finalizers_after(made)
    if spec in {"invalid", "unparsable", "headless", "invalid options"}:
        assert after is None, "nobody knows what was meant"
    elif enabled and spec.startswith(("redis", "legacy")):
        assert after == (None if held else ["theirs", FINALIZER])
    else:
        assert after == (["theirs"] if held else None)


def test_the_first_child_comes_after_the_finalizer_is_stored():
    made = plan_now(reads(redis_cluster(held=False)))
    assert finalizers_after(made) == [FINALIZER]
    assert writes(made), "the executor begins the stages only when the commit is stored"


def test_the_finalizer_does_not_stay_when_the_backend_is_switched():
    made = plan_now(reads(redis_cluster(redis.embedded()), head()))
    assert finalizers_after(made) == []
    assert told(made).startswith("SkippedRedisCleanup: ")
    assert "no longer names Redis" in told(made)


# -- on a cluster that is deleted: one step after the other ---------------------------------------


@pytest.mark.parametrize("spec", ["invalid", "unparsable"])
def test_a_refused_edit_of_other_fields_changes_nothing_about_the_removal(spec: str):
    gone = plan_now(observed(redis_cluster(SPECS[spec](), deleted=1)))
    assert list(every_write(gone)) == list(
        every_write(plan_now(observed(redis_cluster(deleted=1))))
    )
    assert writes(gone) == [f"create Job {JOB}"]


def test_first_every_pod_is_deleted_the_head_first():
    made = plan_now(observed(redis_cluster(deleted=1), head(), *workers(2)))
    assert writes(made) == [
        "delete Pod example-head-aaaaaaaa",
        "delete Pod example-workers-worker-00000000",
        "delete Pod example-workers-worker-00000001",
    ]
    assert next(every_write(made)).uid == "uid-of-example-head-aaaaaaaa"
    assert made.commit is None
    assert made.requeue_after == DEFAULT_TIMEOUT - 1
    assert ready_message(made) == (
        "BeingDeleted: cluster: being deleted; waiting for head pod example-head-aaaaaaaa to go, "
        f"so that its state can be removed from Redis, until {rfc3339(DEADLINE)}"
    )


@pytest.mark.parametrize(
    ("what", "writer"),
    [
        ({"pods": (head(terminating=True),)}, "head pod example-head-aaaaaaaa"),
        ({"pods": (head(phase="Failed", terminating=True),)}, "head pod example-head-aaaaaaaa"),
        (
            {"pods": (head(owner_uid="uid-of-old", terminating=True),)},
            (
                "a pod that may be its head (pod example-head-aaaaaaaa carries the labels of this "
                "cluster's head and belongs to RayCluster example (uid uid-of-old))"
            ),
        ),
        ({"pending": frozenset({"head"})}, "a head pod whose creation was not answered"),
        (
            {"odd": unreadable("example-head-aaaaaaaa", "no number")},
            (
                "a pod that may be its head (pod example-head-aaaaaaaa exists but cannot be read: "
                "no number)"
            ),
        ),
    ],
    ids=["going", "ended", "foreign", "unanswered", "unreadable"],
)
def test_the_job_is_not_made_while_a_head_could_still_write(what: dict[str, Any], writer: str):
    pods = what.pop("pods", ())
    made = plan_now(observed(redis_cluster(deleted=1), *pods, **what))
    assert writes(made) == []
    assert made.commit is None
    assert f"waiting for {writer} to go, so that its state" in ready_message(made)


def test_a_head_that_only_the_status_knows_is_looked_for_first():
    known = with_status(redis_cluster(deleted=1), {"head": {"podName": "example-head-zzz"}})
    made = plan_now(observed(known))
    assert [lookup.target.name for lookup in made.lookups] == ["example-head-zzz"]
    assert made.requeue_after == DEFAULT_TIMEOUT - 1, (
        "a read that fails does not put off the deadline"
    )
    absent = plan_now(observed(known, absent={"default/example-head-zzz"}))
    assert writes(absent) == [f"create Job {JOB}"]


def test_heads_are_listed_live_before_the_job_is_made():
    made = plan_now(observed(redis_cluster(deleted=1), listed=False))
    assert writes(made) == []
    assert made.lookups == (
        LiveList(PODS, "default", "ray.io/cluster=example,ray.io/node-type=head"),
    )


def test_then_the_job_is_made_once_while_workers_are_still_going():
    pods = [pod("example-workers-worker-1", terminating=True), pod("example-workers-worker-2")]
    made = plan_now(observed(redis_cluster(deleted=1), *pods))
    assert writes(made) == [f"create Job {JOB}", "delete Pod example-workers-worker-2"]
    event = made.stages[0][0].on_success
    assert event is not None
    assert event.reason == "CreatedRedisCleanupJob"
    assert event.note == f"Created Redis cleanup Job default/{JOB}"


def test_a_job_that_a_quota_refuses_waits_until_the_workers_have_made_room():
    kept = observed(redis_cluster(deleted=1), *workers(1), refused={KEY: QUOTA})
    made = plan_now(kept)
    assert writes(made) == ["delete Pod example-workers-worker-00000000", f"create Job {JOB}"]
    assert [len(stage) for stage in made.stages] == [1, 1]
    assert "exceeded quota" in ready_message(made)


@pytest.mark.parametrize("job", ["running", "going", "of another"])
def test_a_job_that_is_there_is_waited_for(job: str):
    made = plan_now(observed(redis_cluster(deleted=1), job=JOBS_SEEN[job]))
    assert writes(made) == []
    assert made.commit is None
    whose = "to go, which belongs to another owner" if job == "of another" else "to remove"
    assert f"Job {JOB} {whose}" in ready_message(made)


def test_a_job_whose_creation_was_not_answered_is_not_made_again():
    kept = observed(redis_cluster(deleted=1), pending=frozenset({"redis-cleanup"}))
    assert writes(plan_now(kept)) == []
    taken = observed(redis_cluster(deleted=1), taken={KEY})
    assert writes(plan_now(taken)) == []


@pytest.mark.parametrize(("code", "words"), [(0, ""), (1, "RedisCleanupFailed")])
def test_a_proxy_that_outlives_the_job_in_its_pod_does_not_hold_the_cluster(code: int, words: str):
    containers = [{"name": "istio-proxy", "state": {"running": {}}}, job_container(code)]
    left = pod(
        f"{JOB}-x",
        "headgroup",
        labels={"ray.io/node-type": "redis-cleanup"},
        owner_uid="uid-of-job",
        restart_policy="Never",
        containers=containers,
    )
    template = {"spec": {"containers": [{"name": "ray-head"}]}}
    job = cleanup_job()
    spec = msgspec.structs.replace(job.spec, backoff_limit=0, template=template)
    seen = redis_cluster(deleted=1), left
    made = plan_now(observed(*seen, job=msgspec.structs.replace(job, spec=spec)))
    assert finalizers_after(made) == []
    assert told(made).partition(":")[0] == words
    last = (
        "it ended with exit code 1 (Error), saying: redis.exceptions.AuthenticationError: WRONGPASS"
    )
    assert told(made).endswith(last) is bool(words)


def job_container(code: int) -> dict[str, Any]:
    said = "Traceback\nredis.exceptions.AuthenticationError: WRONGPASS\n"
    return {"name": "ray-head", "state": {"terminated": {"exitCode": code, "message": said}}}


def test_a_pod_of_the_cleanup_is_watched_for_its_cluster_and_is_no_head():
    watch = next(owned for owned in ENABLED.owned if owned.resource is PODS)
    assert "redis-cleanup" in watch.label_selector
    left = pod(f"{JOB}-x", "headgroup", labels={"ray.io/node-type": "redis-cleanup"})
    assert not is_head(left)
    assert watch.also_enqueues is not None
    assert list(watch.also_enqueues(left)) == ["default/example"]
    assert list(watch.indexes["head"](left)) == []


# -- it always lets go ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "job", "words"),
    [
        ((head(terminating=True),), "absent", "head pod example-head-aaaaaaaa"),
        ((), "running", f"Job {JOB}"),
        ((), "going", f"Job {JOB}"),
        ((), "of another", "another owner"),
        ((), "absent", f"Job {JOB}"),
    ],
)
def test_at_the_deadline_it_lets_go_whatever_is_stuck(pods: tuple[Any, ...], job: str, words: str):
    before = plan_now(observed(redis_cluster(deleted=299), *pods, job=JOBS_SEEN[job]))
    assert before.commit is None
    made = plan_now(observed(redis_cluster(deleted=300), *pods, job=JOBS_SEEN[job]))
    assert finalizers_after(made) == []
    assert told(made).startswith("ForceDeletedStuckCluster: ")
    assert words in told(made)


def test_a_job_that_cannot_be_created_is_named_at_the_deadline():
    made = plan_now(observed(redis_cluster(deleted=300), refused={KEY: QUOTA}))
    assert finalizers_after(made) == []
    assert "cannot be created: exceeded quota" in told(made)


@pytest.mark.parametrize(
    ("annotation", "seconds"),
    [("60", 60), ("+60", 60), ("0", 300), ("-5", 300), ("soon", 300), ("1e3", 300), ("", 300),
     ("٦", 300), ("9999999999999999999", 300), (None, 300)],
)  # fmt: skip
def test_the_deadline_is_an_annotation_in_seconds(annotation: str | None, seconds: int):
    made = plan_now(observed(redis_cluster(deleted=0, timeout=annotation), head()))
    assert made.requeue_after == seconds


@pytest.mark.parametrize("job", ["absent", "of another"])
@pytest.mark.parametrize("spec", sorted(SPECS.keys() - IN_REDIS))
def test_the_finalizer_is_removed_with_what_it_was_for(spec: str, job: str):
    kept = observed(redis_cluster(SPECS[spec](), deleted=1), head(), job=JOBS_SEEN[job])
    made = plan_now(kept)
    assert finalizers_after(made) == []
    assert told(made).startswith("SkippedRedisCleanup: ")
    if spec in {"no fault tolerance", "rocksdb"}:
        assert "the specification no longer names Redis" in told(made)


def test_the_finalizer_is_removed_when_cleanup_is_switched_off():
    made = plan_now(observed(redis_cluster(deleted=1), head()), DISABLED)
    assert finalizers_after(made) == []
    assert "ENABLE_GCS_FT_REDIS_CLEANUP is false" in told(made)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "uid-of-example in Redis at redis:6379"),
        ({"externalStorageNamespace": "mine"}, "mine in Redis at redis:6379"),
        ({"redisAddress": "redis://:p@ss,w@r:1"}, "uid-of-example in Redis at redis://r:1"),
    ],
)
@pytest.mark.parametrize("end", ["given up", "failed", "switched off"])
def test_the_last_message_names_what_a_person_must_remove(
    end: str, options: dict[str, Any], named: str
):
    cluster = redis_cluster(redis.with_options(**options), deleted=301 if end == "given up" else 1)
    kept = observed(cluster, job=cleanup_job("Failed") if end == "failed" else None)
    made = plan_now(kept, DISABLED if end == "switched off" else ENABLED)
    assert finalizers_after(made) == []
    assert f"external storage namespace {named}" in told(made)


def test_the_last_message_names_what_the_heads_own_variables_say():
    raw = redis.legacy()
    env = raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    secret = {"secretKeyRef": {"name": "redis", "key": "ns"}}
    env.append({"name": "RAY_external_storage_namespace", "valueFrom": secret})
    said = told(plan_now(observed(redis_cluster(raw, deleted=301))))
    assert "namespace (key ns of Secret redis) in Redis at redis:6379" in said


def test_when_the_specification_no_longer_says_it_the_head_does():
    running = head(annotations={"ray.io/external-storage-namespace": "former"})
    said = told(plan_now(observed(redis_cluster(redis.manifest(), deleted=1), running)))
    assert "external storage namespace former in Redis" in said


def test_a_cleanup_that_a_queue_suspends_is_told():
    suspended = cleanup_job()
    spec = msgspec.structs.replace(suspended.spec, suspend=True)
    kept = observed(redis_cluster(deleted=1))
    kept.add(JOBS, msgspec.structs.replace(suspended, spec=spec))
    assert "which is suspended (spec.suspend)" in ready_message(plan_now(kept))


def test_cleanup_is_switched_off_by_kuberays_variable():
    off = RaySettings.from_environment({"ENABLE_GCS_FT_REDIS_CLEANUP": "False"})
    assert not off.redis_cleanup
    assert RaySettings.from_environment({}).redis_cleanup
    assert RaySettings.from_environment({"ENABLE_GCS_FT_REDIS_CLEANUP": "no"}).redis_cleanup


def test_a_job_made_before_the_wish_was_dropped_is_still_waited_for():
    switched = redis_cluster(redis.embedded(), deleted=1)
    assert plan_now(observed(switched, job=cleanup_job())).commit is None
    assert finalizers_after(plan_now(observed(switched, job=cleanup_job("Failed")))) == []


def test_a_cluster_that_another_controller_manages_is_left_alone():
    raw = redis.with_options()
    raw["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    assert plan_now(observed(redis_cluster(raw), head())) == NOTHING
    assert plan_now(observed(redis_cluster(raw, held=False))) == NOTHING
    assert plan_now(observed(redis_cluster(raw, held=False, deleted=1), head())) == NOTHING


def test_a_cluster_that_was_given_to_another_controller_is_not_held_by_our_finalizer():
    raw = redis.with_options()
    raw["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    made = plan_now(observed(redis_cluster(raw, deleted=1), head()))
    assert [w.target.name for stage in made.stages for w in stage] == [head().metadata.name]
    assert finalizers_after(plan_now(observed(redis_cluster(raw, deleted=1000), head()))) == []


def test_finalizers_of_others_stay_and_starve_nobody():
    theirs = ("a/first", "b/second")
    shared = redis_cluster(deleted=1, finalizers=theirs)
    assert finalizers_after(plan_now(observed(shared, job=cleanup_job("Complete")))) == [*theirs]
    left = with_meta(shared, finalizers=theirs)
    made = plan_now(observed(left, head()))
    assert (made.commit, made.stages, made.requeue_after) == (None, (), None)
    assert "held by the finalizers a/first, b/second" in ready_message(made)


def test_without_the_finalizer_a_deleted_cluster_is_left_to_the_garbage_collector():
    made = plan_now(observed(redis_cluster(held=False, deleted=1000), head(), *workers(1)))
    assert (made.commit, made.stages, made.requeue_after) == (None, (), None)


# -- the whole table ------------------------------------------------------------------------------


# -- it ends: the plan loop over all ways in which the world may behave ---------------------------


@dataclass
class Deleting:
    """A deleted cluster, and a world that behaves in one certain way.

    Attributes:
        head_seconds: how long the head takes to go, None for ever.
        job_seconds: how long the Job takes, None for ever.
        answer: what becomes of a create of the Job.
        conflicts: how often somebody else is faster with the finalizers.
    """

    head_seconds: float | None
    job_seconds: float | None
    ending: str
    answer: str
    conflicts: int
    seconds: float = 0.0
    plans: int = 0
    jobs_made: int = 0
    held: bool = True
    events: list[str] = field(default_factory=list)

    def run(self) -> None:
        obj = stored("redis", held=True, deleted=0)
        kept = observed(obj, head(), *workers(3))
        going: dict[str, float] = {}
        while self.held:
            self.plans += 1
            assert self.plans < 40, f"no end: {self}"
            made = plan_now(kept, ENABLED, seconds=self.seconds)
            for write in every_write(made):
                self._carry_out(write, kept, going)
            if made.commit is not None:
                self._let_go(made)
            self._pass_time(made, kept, going)

    def _carry_out(self, write: Any, kept: FakeReads, going: dict[str, float]) -> None:
        if isinstance(write, Delete):
            name = write.target.name
            old = kept.get(PODS, write.target.key)
            kept.add(PODS, with_meta(old, deletion_timestamp=rfc3339(NOW)))
            takes = self.head_seconds if "head" in name else 1.0
            going[f"pods/{name}"] = self.seconds + (1e9 if takes is None else takes)
            return
        assert isinstance(write, Create)
        assert not any("-head-" in key for _, key in kept.objects), "a head could still write"
        match self.answer:
            case "created":
                self.jobs_made += 1
                kept.add(JOBS, cleanup_job())
                takes = 1e9 if self.job_seconds is None else self.job_seconds
                going[f"jobs/{JOB}"] = self.seconds + takes
            case "quota":
                kept.refused[KEY] = QUOTA
            case _:
                kept.refused[KEY] = GOING

    def _let_go(self, made: Plan) -> None:
        if self.conflicts:
            self.conflicts -= 1
            return
        self.held = False
        self.events.append(told(made).partition(":")[0])

    def _pass_time(self, made: Plan, kept: FakeReads, going: dict[str, float]) -> None:
        """To the next thing that wakes the key: an event, the back-off, the deadline."""
        until = self.seconds + (made.requeue_after or 1.0)
        refused = kept.record("").create_error(JOBS, f"default/{JOB}")
        if refused is not None:
            until = min(until, self.seconds + (1.0 if refused is GOING else 20.0))
        until = min([until, *going.values()])
        self.seconds = until
        for what, when in list(going.items()):
            if when <= until:
                del going[what]
                plural, name = what.split("/")
                if plural == "jobs":
                    kept.add(JOBS, cleanup_job(self.ending))
                else:
                    del kept.objects[plural, f"default/{name}"]


HEADS = (0.5, 30.0, 299.0, 400.0, None)
WORLDS = [
    *itertools.product(
        HEADS, (1.0, 200.0, 400.0, None), ("Complete", "Failed"), ("created",), (0, 3)
    ),
    *itertools.product(HEADS, (1.0,), ("Complete",), ("quota", "namespace"), (0, 3)),
]


def test_in_every_world_the_cluster_goes_no_later_than_the_deadline_and_the_job_ran_at_most_once():
    for world in WORLDS:
        run = Deleting(*world)
        run.run()
        assert run.jobs_made <= 1, run
        assert run.seconds <= DEFAULT_TIMEOUT + 10, run
        quick = run.head_seconds in {0.5, 30.0} and run.job_seconds in {1.0, 200.0}
        if quick and run.answer == "created":
            assert run.events == ["RedisCleanupFailed" if run.ending == "Failed" else ""], run
            assert run.seconds < DEFAULT_TIMEOUT
        if run.answer == "namespace" and run.head_seconds in {0.5, 30.0}:
            assert run.events == ["SkippedRedisCleanup"]
            assert run.seconds <= run.head_seconds + 5
        if run.head_seconds is None:
            assert run.events == ["ForceDeletedStuckCluster"]
            assert run.jobs_made == 0
