"""What is planned for a RayJob, state by state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import find_condition, rfc3339
from controller.kube.resources import JOBS, SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.dashboard.commands import (
    CommandDone,
    CommandExpired,
    CommandRefused,
    StopJob,
    SubmitJob,
)
from controller.ray.dashboard.responses import JobInfo, JobStatus
from controller.ray.job.attempt import digest_of
from controller.runtime.kind import LogText
from controller.runtime.plan import Create, Delete, Event, JsonPatch, MergePatch, Plan
from tests.ray.cluster.support import NOW, does_nothing, writes
from tests.ray.job.rayjobs import is_head_lost, rayjob, valid
from tests.ray.job.scenes import CLUSTER, CLUSTER_UID, JOB_ID, Scene, cluster, running, submitter

STOPPED = f"stop/{JOB_ID}"
SUBMITTED = f"submit/{JOB_ID}"


TOO_LATE = "JobAsSpecified"


def status_of(plan: Plan) -> dict[str, Any]:
    """The status that the commit writes."""
    commit = plan.commit
    assert isinstance(commit, MergePatch)
    assert commit.subresource == "status", commit
    assert commit.resource_version == "1", "a transition that is not guarded may happen twice"
    return dict(commit.patch["status"])


def reported(plan: Plan) -> dict[str, Any]:
    assert plan.commit is None, plan.commit
    assert plan.status is not None
    return dict(plan.status.wanted)


def ready(status: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in status["conditions"] if each["type"] == "Ready")


# New and Initializing


def test_a_job_that_is_created_suspended_gets_no_finalizer_before_it_is_resumed():
    no_finalizer: dict[str, Any] = {"finalizers": []}
    for state in ("", "Suspended"):
        made = Scene(state, suspend=True, meta=no_finalizer).plan()
        written = made.commit.patch if isinstance(made.commit, MergePatch) else {}
        assert "metadata" not in written
    resumed = Scene("", meta=no_finalizer).plan()
    assert isinstance(resumed.commit, MergePatch)
    assert resumed.commit.patch == {"metadata": {"finalizers": ["ray.io/rayjob-finalizer"]}}


def test_a_name_that_an_attempt_had_or_that_is_there_does_not_come_back():
    name = status_of(Scene("", runs_on="").plan())["rayClusterName"]
    had = {"attempts": [{"number": 1, "rayClusterName": name}]}
    assert status_of(Scene("", runs_on="", status=had).plan())["rayClusterName"] != name
    odd = {"attempts": [{"number": 1, "rayClusterName": ["a"]}]}
    assert status_of(Scene("", runs_on="", status=odd).plan())["rayClusterName"] == name
    there = Scene("", runs_on="")
    there.reads.add(RAYCLUSTERS, cluster(name=name, owner="somebody"))
    assert status_of(there.plan())["rayClusterName"] != name


def test_a_job_managed_by_somebody_else_is_left_alone():
    assert does_nothing(Scene("", managedBy="kueue.x-k8s.io/multikueue").plan())


@pytest.mark.parametrize("again", [False, True])
def test_a_cluster_that_is_made_again_was_deleted_by_somebody_else(again: bool):
    status = {"rayClusterStatus": {"desiredCPU": "1"}} if again else {}
    ((create,),) = Scene("Initializing", runs_on="", status=status).plan().stages
    event = create.on_success
    assert isinstance(event, Event)
    assert event.type == ("Warning" if again else "Normal")
    assert ("the one before was deleted by somebody else" in event.note) is again


@pytest.mark.parametrize("why", ["pending", "taken", "foreign", "selected"])
def test_no_cluster_is_made_where_one_may_be_or_is_not_ours(why: str):
    spec: dict[str, Any] = {}
    if why == "selected":
        spec = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": CLUSTER}}
    scene = Scene("Initializing", runs_on="", **spec)
    if why == "pending":
        scene.reads.pending = frozenset({"cluster"})
    if why == "taken":
        scene.reads.taken.add(f"RayCluster/default/{CLUSTER}")
    if why == "foreign":
        scene.with_cluster(owner="somebody")
    assert writes(scene.plan()) == []


def test_annotations_of_ours_do_not_reach_the_cluster():
    meta = {"annotations": {"theirs": "yes", "manta.dev/own": "no"}}
    (stage,) = Scene("Initializing", meta=meta).plan().stages
    (create,) = stage
    assert isinstance(create, Create)
    assert {"theirs", "manta.dev/made-from"} == create.body["metadata"]["annotations"].keys()


def test_a_head_that_the_operator_submits_to_is_recorded_once_it_has_answered():
    begun = Scene("Initializing", runs_on="").with_cluster().with_head().plan()
    assert status_of(begun)["jobDeploymentStatus"] == "Running"
    scene = Scene("Running", runs_on="").with_cluster().with_head()
    assert scene.plan().commit is None
    assert scene.fails(20).plan().commit is None
    made = scene.knows_nothing().plan()
    assert isinstance(made.commit, MergePatch)
    assert "metadata" in made.commit.patch
    assert not made.commands, "nothing is submitted before it is recorded"


@pytest.mark.parametrize("head", [None, {"terminating": True}])
def test_a_job_that_was_never_submitted_waits_for_the_next_head(head: dict[str, Any] | None):
    stored = {"jobStatusCheckFailureStartTime": rfc3339(NOW - timedelta(hours=1))}
    scene = Scene("Running", runs_on="", status=stored).with_cluster("")
    if head is not None:
        scene.with_head(**head)
    made = scene.plan()
    assert made.commit is None
    assert reported(made)["jobStatusCheckFailureStartTime"] is None
    if head is None:
        assert ready(reported(made))["reason"] == "RayClusterNotReady"


def test_a_recorded_head_of_a_ready_cluster_lets_the_job_run():
    status = status_of(Scene("Initializing").with_cluster().with_head().plan())
    assert status["jobDeploymentStatus"] == "Running"
    assert status["dashboardURL"] == f"{CLUSTER}-head-svc.default.svc.cluster.local:8265"


def test_a_deadline_wakes_a_job_that_waits_and_nothing_else_does():
    assert Scene("Initializing", runs_on="").with_cluster("").plan().requeue_after is None
    waiting = Scene("Initializing", runs_on="", preRunningDeadlineSeconds=100).with_cluster("")
    assert waiting.plan().requeue_after == 40
    late = waiting.plan(seconds=40)
    assert status_of(late)["reason"] == "PreRunningDeadlineExceeded"


# Running


def test_nothing_is_submitted_before_ray_has_said_that_it_does_not_know_the_job():
    assert running().plan().commands == ()
    assert running().fails(10).plan().commands == ()
    (order,) = running().knows_nothing().plan().commands
    assert isinstance(order.command, SubmitJob)
    assert order.command.id == SUBMITTED
    assert order.command.submission.submission_id == JOB_ID


@pytest.mark.parametrize("why", ["known", "done", "other head", "no record"])
def test_nothing_is_submitted_twice(why: str):
    scene = running(
        status={"jobStatus": "RUNNING"} if why == "known" else None,
        runs_on={"other head": "uid-of-another/0", "no record": ""}.get(
            why, "uid-of-example-head-aaaaaaaa/0"
        ),
    ).knows_nothing(since=NOW)
    if why == "done":
        scene.dashboards.outcomes[SUBMITTED] = CommandDone()
    assert scene.plan().commands == ()


@pytest.mark.parametrize("outcome", [CommandRefused("no entrypoint"), CommandExpired("no answer")])
def test_a_submission_that_ray_does_not_take_ends_the_attempt(outcome: Any):
    scene = running().knows_nothing()
    scene.dashboards.outcomes[SUBMITTED] = outcome
    status = status_of(scene.plan())
    assert status["reason"] == "SubmissionFailed"
    assert outcome.message in status["message"]


def test_the_submitter_is_made_once_and_not_if_ray_has_the_job():
    fresh = running(submissionMode="K8sJobMode").plan()
    assert writes(fresh) == ["create Job example"]
    (stage,) = fresh.stages
    (create,) = stage
    assert isinstance(create, Create)
    template = create.body["spec"]["template"]
    assert template["metadata"]["labels"]["ray.io/node-type"] == "submitter"
    assert writes(running(submissionMode="K8sJobMode").with_submitter().plan()) == []
    known = running(submissionMode="K8sJobMode").says(JobStatus.RUNNING)
    assert writes(known.plan()) == []
    pending = running(submissionMode="K8sJobMode")
    pending.reads.pending = frozenset({"submitter"})
    assert writes(pending.plan()) == []


def test_a_failure_is_counted_with_the_write_that_ends_the_attempt():
    scene = running(status={"failed": 1}, backoffLimit=2).says(JobStatus.FAILED, message="boom")
    made = scene.plan()
    status = status_of(made)
    assert status["jobDeploymentStatus"] == "Retrying"
    assert (status["failed"], status["reason"], status["message"]) == (2, "AppFailed", "boom")
    assert status["endTime"] == rfc3339(NOW)
    assert not made.stages
    assert isinstance(made.commit, MergePatch)
    assert made.commit.on_success is not None
    assert made.commit.on_success.reason == "RetryingRayJob"
    assert "attempt 2 of 3" in made.commit.on_success.note
    retried = next(each for each in status["conditions"] if each["type"] == "Retried")
    assert "attempt 2 of 3" in retried["message"]


def test_the_log_of_the_submitter_is_read_before_the_attempt_ends_and_never_waited_for():
    scene = running(submissionMode="K8sJobMode", backoffLimit=1).says(JobStatus.FAILED)
    scene.with_submitter("Complete")
    (tail,) = scene.plan().lookups
    selector = "batch.kubernetes.io/controller-uid=uid-of-submitter"
    assert (tail.label_selector, tail.container) == (selector, "mine")  # type: ignore[union-attr]
    lines = "\n".join(f"line {number}" for number in range(100))
    scene.reads.logs[selector] = LogText(f"{lines}\npassword=hunter2")
    log = status_of(scene.plan())["attempts"][-1]["log"]
    assert "hunter2" not in log
    assert len(log.splitlines()) == 20
    scene.reads.logs[selector] = LogText(unavailable="403: may not read logs")
    assert "403" in status_of(scene.plan())["attempts"][-1]["log"]


def test_secrets_in_what_ray_says_are_not_kept():
    scene = running().says(JobStatus.FAILED, message="failed with token=abcdef123456")
    status = status_of(scene.plan())
    assert "abcdef123456" not in str(status)


def test_a_silence_from_before_a_restart_counts_only_once_it_is_known_to_go_on():
    long_ago = {"jobStatusCheckFailureStartTime": rfc3339(NOW - timedelta(hours=1))}
    reported(running(status=long_ago).plan())
    assert reported(running(status=long_ago).fails(10).plan())
    status = status_of(running(status=long_ago).fails(30).plan())
    assert status["reason"] == "JobStatusCheckTimeoutExceeded"
    answered = reported(running(status=long_ago).says(JobStatus.RUNNING).plan())
    assert answered["jobStatusCheckFailureStartTime"] is None


HOUR = timedelta(hours=1)


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_silence_from_before_a_jump_of_the_clock_counts_from_the_jump(seconds: float):
    status = reported(running().fails(seconds).jumped(100).plan())
    assert status["jobStatusCheckFailureStartTime"] == rfc3339(NOW - timedelta(seconds=100))
    status = status_of(running().fails(seconds).jumped(300).plan())
    assert status["reason"] == "JobStatusCheckTimeoutExceeded"


def test_a_stored_silence_from_before_a_jump_of_the_clock_counts_from_the_jump():
    stored = {"jobStatusCheckFailureStartTime": rfc3339(NOW - HOUR)}
    status = reported(running(status=stored).fails(60).jumped(100).plan())
    assert status["jobStatusCheckFailureStartTime"] == rfc3339(NOW - timedelta(seconds=100))


def test_a_silence_that_is_stored_as_of_the_future_counts_from_now():
    status = {"jobStatusCheckFailureStartTime": rfc3339(NOW + HOUR)}
    lost = Scene(status=status).with_cluster()
    assert reported(lost.plan())["jobStatusCheckFailureStartTime"] == rfc3339(NOW)


def test_a_lost_head_is_waited_for_as_long_after_a_jump_of_the_clock():
    status = {"jobStatusCheckFailureStartTime": rfc3339(NOW - HOUR)}
    assert reported(Scene(status=status).with_cluster().jumped(89).plan())
    late = Scene(status=status).with_cluster().jumped(90).plan()
    assert is_head_lost(status_of(late))


def not_submitted() -> Scene:
    made = running(submissionMode="K8sJobMode", submitterConfig={"backoffLimit": 0})
    made.with_submitter("Failed", ended=NOW - timedelta(seconds=60))
    made.reads.logs["batch.kubernetes.io/controller-uid=uid-of-submitter"] = LogText("x")
    return made.knows_nothing()


def printing() -> Scene:
    """A job that succeeded long ago and whose submitter still prints its log."""
    made = running(submissionMode="K8sJobMode").with_submitter()
    return made.says(JobStatus.SUCCEEDED, end_time=NOW - HOUR)


def deleted() -> Scene:
    meta = {"deletionTimestamp": rfc3339(NOW - HOUR)}
    return running(meta=meta).says(JobStatus.RUNNING)


def forgotten() -> Scene:
    return running(status={"jobStatus": "RUNNING"}).knows_nothing()


@pytest.mark.parametrize(
    ("make", "patience"), [(not_submitted, 30), (printing, 300), (deleted, 30), (forgotten, 10)]
)
def test_the_operators_own_patience_begins_again_with_a_jump_of_the_clock(
    make: Callable[[], Scene], patience: float
):
    assert make().jumped(patience).plan().commit is not None
    assert make().jumped(patience - 1).plan().commit is None


def test_what_a_user_has_limited_in_time_ends_by_the_time_of_day():
    started = {"startTime": rfc3339(NOW - HOUR)}
    scene = running(status=started, activeDeadlineSeconds=600).says(JobStatus.STOPPED).jumped(1)
    assert status_of(scene.plan())["reason"] == "DeadlineExceeded"


def test_a_submitter_that_succeeds_without_a_job_fails_the_attempt_as_with_kuberay():
    made = running(submissionMode="K8sJobMode")
    made.with_submitter("Complete", ended=NOW - timedelta(seconds=60))
    made.reads.logs["batch.kubernetes.io/controller-uid=uid-of-submitter"] = LogText("x")
    status = status_of(made.knows_nothing().plan())
    assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "AppFailed")
    assert "jobStatus" not in status
    assert "Ray does not know submission id" in status["message"]


def test_no_such_job_counts_only_if_it_was_said_after_the_submitter_had_ended():
    def scene(asked: float) -> Scene:
        ended = NOW - timedelta(seconds=60)
        made = running(submissionMode="K8sJobMode", submitterConfig={"backoffLimit": 0})
        made.with_submitter("Failed", ended=ended)
        made.reads.logs["batch.kubernetes.io/controller-uid=uid-of-submitter"] = LogText("x")
        return made.knows_nothing(last_success=ended + timedelta(seconds=asked))

    early = scene(-1).plan()
    assert early.commit is None
    assert early.requeue_after is not None
    assert status_of(scene(30).plan())["reason"] == "SubmissionFailed"


def test_a_head_that_is_gone_is_stored_and_given_ninety_seconds():
    scene = Scene("Running").with_cluster()
    made = scene.plan()
    assert reported(made)["jobStatusCheckFailureStartTime"] == rfc3339(NOW)
    assert made.requeue_after == 90
    since = {"jobStatusCheckFailureStartTime": rfc3339(NOW - timedelta(seconds=90))}
    assert is_head_lost(status_of(Scene("Running", status=since).with_cluster().plan()))


def test_with_fault_tolerance_the_head_has_five_minutes():
    since = {"jobStatusCheckFailureStartTime": rfc3339(NOW - timedelta(seconds=90))}
    options = {"redisAddress": "redis:6379"}
    scene = Scene("Running", status=since).with_cluster(gcsFaultToleranceOptions=options)
    assert scene.plan().commit is None


@pytest.mark.parametrize("head", [{"restarts": 1}, {"name": "example-head-bbbbbbbb"}])
def test_a_head_restarted_or_replaced_that_does_not_know_the_job_loses_it(head: dict[str, Any]):
    scene = Scene("Running").with_cluster().with_head(**head).knows_nothing()
    assert is_head_lost(status_of(scene.plan()))
    asked = Scene("Running").with_cluster().with_head(**head)
    assert is_head_lost(status_of(asked.plan()))  # whatever it would say
    kept = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
    durable = Scene("Running").with_cluster(**kept).with_head(**head)
    assert durable.says(JobStatus.RUNNING).plan().commit is None
    assert is_head_lost(status_of(durable.knows_nothing().plan()))


@pytest.mark.parametrize(
    ("head", "status", "ended"),
    [
        ({}, {"jobStatus": "RUNNING"}, False),
        ({}, {"jobStatus": None}, True),
        ({"restarts": 1}, {"jobStatus": "RUNNING"}, True),
    ],
)
def test_a_submitter_that_might_submit_a_failed_job_yet_is_ended(
    head: dict[str, Any], status: dict[str, Any], ended: bool
):
    scene = Scene("Failed", status=status).with_cluster().with_head(**head).with_submitter()
    deleted = [write for stage in scene.plan().stages for write in stage]
    assert [type(write) for write in deleted] == ([Delete] if ended else [])


@pytest.mark.parametrize(
    "state", [{"terminated": {"exitCode": 1}}, {"waiting": {"reason": "CrashLoopBackOff"}}]
)
def test_a_head_whose_ray_has_ended_is_no_head(state: dict[str, Any]):
    status = {"name": "ray-head", "state": state, "lastState": {"terminated": {"exitCode": 1}}}
    scene = Scene("Running").with_cluster().with_head(containers=[status])
    assert scene.plan().subscriptions == ()


def test_the_head_service_is_made_only_for_a_cluster_of_ones_own():
    made = running().plan()
    assert [write.target.resource for write in made.independent] == [SERVICES]
    foreign = Scene("Running", rayClusterSpec=None, clusterSelector={"ray.io/cluster": CLUSTER})
    foreign.with_cluster(owner="somebody").with_head()
    assert foreign.plan().independent == ()


# Suspending, Retrying and the end


def test_a_suspension_stops_then_deletes_then_waits():
    scene = Scene("Suspending", suspend=True, shutdownAfterJobFinishes=True)
    scene.with_cluster().with_head()
    first = scene.plan()
    assert [type(order.command) for order in first.commands] == [StopJob]
    assert not first.stages
    assert len(first.subscriptions) == 1
    scene.dashboards.outcomes[STOPPED] = CommandExpired("no answer")
    (delete,) = scene.plan().stages[0]
    assert isinstance(delete, Delete)
    assert delete.uid == CLUSTER_UID


def test_a_retry_deletes_by_uid_what_the_attempt_was_made_of_and_asks_ray_nothing():
    scene = Scene("Retrying").with_cluster().with_head().with_submitter()
    made = scene.plan()
    deletes = [write for write in made.stages[0] if isinstance(write, Delete)]
    assert {delete.uid for delete in deletes} == {CLUSTER_UID, "uid-of-submitter"}
    assert (made.commands, made.subscriptions) == ((), ())


@pytest.mark.parametrize("state", ["Suspended", "Complete", "Failed"])
def test_a_cluster_that_comes_late_is_deleted_also_when_nothing_is_to_follow(state: str):
    spec = {"suspend": True, "shutdownAfterJobFinishes": True} if state == "Suspended" else {}
    scene = Scene(state, **spec)
    scene.reads.add(RAYCLUSTERS, cluster(name="example-stray", uid="stray"))
    assert writes(scene.plan()) == ["delete RayCluster example-stray"]


@pytest.mark.parametrize("state", ["Retrying", "Suspending"])
@pytest.mark.parametrize("left", ["cluster", "submitter", "unknown create"])
def test_an_attempt_is_over_only_when_nothing_of_it_is_left(state: str, left: str):
    scene = Scene(state)
    if left == "cluster":
        scene.with_cluster(terminating=True)
    if left == "submitter":
        scene.with_submitter()
    if left == "unknown create":
        scene.reads.pending = frozenset({"cluster"})
    assert scene.plan().commit is None


def test_a_new_attempt_forgets_the_last_one_but_its_end():
    status = {"endTime": rfc3339(NOW), "failed": 1, "jobStatus": "FAILED", "reason": "AppFailed"}
    written = status_of(Scene("Retrying", status=status).plan())
    assert written["jobDeploymentStatus"] is None
    assert {name for name, value in written.items() if value is None} >= {
        "jobId",
        "rayClusterName",
        "jobStatus",
        "reason",
        "message",
        "dashboardURL",
    }
    assert "endTime" not in written
    assert "failed" not in written


def test_a_deleted_job_is_let_go_when_ray_has_confirmed_its_end():
    meta = {"deletionTimestamp": rfc3339(NOW)}
    scene = running(meta=meta).says(JobStatus.RUNNING)
    made = scene.plan()
    assert [type(order.command) for order in made.commands] == [StopJob]
    assert made.commit is None
    assert made.requeue_after == 30
    scene.dashboards.outcomes[f"{STOPPED}/deleted"] = CommandExpired("no answer")
    assert scene.plan().commit is None, "giving up is no stop"
    scene.dashboards.outcomes[f"{STOPPED}/deleted"] = CommandDone(
        JobInfo(JOB_ID, JobStatus.STOPPED)
    )
    commit = scene.plan().commit
    assert isinstance(commit, MergePatch)
    assert commit.patch == {"metadata": {"finalizers": []}}
    assert commit.on_success is None


def test_a_deleted_job_is_let_go_after_thirty_seconds_whatever_becomes_of_the_stop():
    meta = {"deletionTimestamp": rfc3339(NOW)}
    assert running(meta=meta).plan(seconds=30).commit is not None


def test_a_job_that_has_ended_writes_nothing_and_wakes_for_its_time_to_live():
    ended = {"endTime": rfc3339(NOW), "jobStatus": "SUCCEEDED"}
    spec: dict[str, Any] = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 60}
    scene = Scene("Complete", status=ended, **spec).with_cluster()
    made = scene.plan()
    assert made.requeue_after == 60
    assert not made.stages
    assert writes(scene.plan(seconds=60)) == [f"delete RayCluster {CLUSTER}"]
    assert Scene("Complete", status=ended, **spec).plan(seconds=60).requeue_after is None


def test_a_time_to_live_that_a_jump_has_put_into_the_future_begins_at_the_jump():
    ended = {"endTime": rfc3339(NOW + HOUR), "jobStatus": "SUCCEEDED"}
    spec: dict[str, Any] = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 60}
    scene = Scene("Complete", status=ended, **spec).with_cluster().jumped(20)
    assert scene.plan().requeue_after == 40
    assert writes(scene.plan(seconds=40)) == [f"delete RayCluster {CLUSTER}"]
    assert Scene("Complete", status=ended, **spec).with_cluster().plan().requeue_after == 3660


def test_a_deadline_that_a_jump_has_put_into_the_future_begins_at_the_jump():
    started = {"startTime": rfc3339(NOW + HOUR)}
    scene = running(status=started, activeDeadlineSeconds=60).says(JobStatus.RUNNING).jumped(20)
    assert scene.plan().requeue_after == 40
    assert scene.plan(seconds=40).commit is not None


def test_a_deadline_from_a_clock_that_was_ahead_before_the_start_begins_at_the_start():
    started = {"startTime": rfc3339(NOW + HOUR)}
    scene = running(status=started, activeDeadlineSeconds=60).says(JobStatus.RUNNING).started(20)
    assert scene.plan().requeue_after == 40
    assert scene.plan(seconds=40).commit is not None


def test_a_lost_head_of_a_clock_that_was_ahead_is_waited_for_from_the_start():
    status = {"jobStatusCheckFailureStartTime": rfc3339(NOW + HOUR)}
    assert reported(Scene(status=status).with_cluster().started(89).plan())
    assert is_head_lost(status_of(Scene(status=status).with_cluster().started(90).plan()))


def test_workers_are_suspended_under_the_revision_that_was_seen():
    condition = {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}
    rules = {"deletionRules": [{"policy": "DeleteWorkers", "condition": condition}]}
    ended = {"endTime": rfc3339(NOW), "jobStatus": "SUCCEEDED"}
    scene = Scene("Complete", status=ended, deletionStrategy=rules).with_cluster()
    (patch,) = scene.plan().stages[0]
    assert isinstance(patch, JsonPatch)
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert patch.operations[0] == test


HOLED = {
    "deletionRules": [
        {"policy": "DeleteCluster", "condition": {"jobStatus": status}}
        for status in ("SUCCEEDED", "FAILED")
    ]
}


@pytest.mark.parametrize("said", [None, "RUNNING"])
def test_an_end_that_no_rule_is_about_is_said_once_and_in_a_condition(said: str | None):
    def after(stored: list[dict[str, Any]] | None = None) -> Plan:
        status = {"endTime": rfc3339(NOW - HOUR), "jobStatus": said, "reason": "DeadlineExceeded"}
        more = {} if stored is None else {"conditions": stored}
        return Scene("Failed", status=status | more, deletionStrategy=HOLED).with_cluster().plan()

    first = after()
    assert first.status is not None
    (event,) = first.status.events
    assert (event.type, event.reason) == ("Warning", "NoRuleMatches")
    assert f"cluster {CLUSTER} stays" in event.note
    found = find_condition(reported(first)["conditions"], "DeletionRulesMatch")
    assert found is not None
    assert found["message"] == event.note
    again = after(reported(first)["conditions"])
    assert again.status is not None
    assert again.status.events == ()


def test_a_hole_of_the_rules_is_said_beforehand_once_a_generation():
    made = Scene("", runs_on="", deletionStrategy=HOLED).plan()
    (event,) = made.events
    assert (event.type, event.reason) == ("Warning", "DeletionRulesIncomplete")
    told = {"observedGeneration": 1}
    assert running(status=told, deletionStrategy=HOLED).plan().events == ()
    edited = {"observedGeneration": 0}
    assert len(running(status=edited, deletionStrategy=HOLED).plan().events) == 1


def test_a_cluster_beside_a_selector_is_said_to_have_no_effect():
    selector = {"ray.io/cluster": "shared"}
    (event,) = Scene("", runs_on="", clusterSelector=selector).plan().events
    assert (event.type, event.reason) == ("Warning", "InvalidRayJobSpec")
    assert "spec.rayClusterSpec: has no effect beside spec.clusterSelector" in event.note
    alone = Scene("", runs_on="", clusterSelector=selector, rayClusterSpec=None)
    assert alone.plan().events == ()


def test_a_crd_that_keeps_no_conditions_is_not_written_to_again_and_again():
    kept_none = {"conditions": None, "attempts": None}
    status = reported(running(status=kept_none).says(JobStatus.RUNNING).plan())
    assert "conditions" not in status
    assert "attempts" not in status
    failed = status_of(running(status=kept_none, backoffLimit=1).says(JobStatus.FAILED).plan())
    assert (failed["jobDeploymentStatus"], failed["failed"]) == ("Retrying", 1)


def test_an_invalid_job_says_what_is_wrong_and_makes_nothing():
    made = Scene("", runs_on="", backoffLimit=-1).plan()
    status = status_of(made)
    assert status["jobDeploymentStatus"] == "ValidationFailed"
    assert "backoffLimit" in status["message"]
    assert isinstance(made.commit, MergePatch)
    assert made.commit.on_success is not None
    assert made.commit.on_success.reason == "InvalidRayJobSpec"
    no_attempt = {"rayClusterName": None, "jobId": None, "startTime": None}
    resting = Scene("ValidationFailed", status=no_attempt, backoffLimit=-1).plan()
    assert (resting.stages, resting.requeue_after, resting.subscriptions) == ((), None, ())


def test_a_submitter_that_failed_is_not_tried_again_once_ray_has_said_the_result():
    def scene(failed: int, limit: int) -> Scene:
        made = running(submissionMode="K8sJobMode").says(JobStatus.FAILED)
        job = submitter()
        spec = msgspec.structs.replace(job.spec, backoff_limit=limit)
        status = msgspec.structs.replace(job.status, failed=failed)
        made.reads.add(JOBS, msgspec.structs.replace(job, spec=spec, status=status))
        return made

    patches = [w for w in scene(1, 2).plan().independent if w.target.resource is JOBS]
    assert [getattr(patch, "patch", None) for patch in patches] == [{"spec": {"backoffLimit": 0}}]
    for failed, limit in ((0, 2), (1, 0)):
        assert [
            w for w in scene(failed, limit).plan().independent if w.target.resource is JOBS
        ] == []


def test_a_changed_cluster_specification_is_said_and_reaches_the_next_attempt():
    (stage,) = Scene("Initializing", runs_on="").plan().stages
    (create,) = stage
    assert isinstance(create, Create)
    made_from = create.body["metadata"]["annotations"]["manta.dev/made-from"]

    def conditions(digest: str) -> list[str]:
        scene = running()
        made = cluster()

        annotated = msgspec.structs.replace(
            made.metadata, annotations={"manta.dev/made-from": digest}
        )
        scene.reads.add(RAYCLUSTERS, msgspec.structs.replace(made, metadata=annotated))
        return [
            each["type"] for each in reported(scene.says(JobStatus.RUNNING).plan())["conditions"]
        ]

    assert "ClusterAsSpecified" not in conditions(made_from)
    assert "ClusterAsSpecified" in conditions(made_from[:-1] + "X")
    assert "ClusterAsSpecified" not in conditions("2-X"), "of another version of the operator"
    spec = valid(rayjob())
    swapped = {"workerGroupSpecs": [{"groupName": "a"}, {"groupName": "b"}]}
    one = msgspec.structs.replace(spec, ray_cluster_spec=swapped)
    swapped = {"workerGroupSpecs": swapped["workerGroupSpecs"][::-1]}
    assert digest_of(one) == digest_of(msgspec.structs.replace(spec, ray_cluster_spec=swapped))


def by_submitter(state: str = "Initializing", **spec: Any) -> Scene:
    """A job that a submitter submits, whose head and cluster are ready."""
    return Scene(state, submissionMode="K8sJobMode", **spec).with_cluster().with_head()


def submitted(**spec: Any) -> dict[str, str]:
    """The annotations that a RayJob gets before its job is submitted."""
    commit = by_submitter(runs_on="", **spec).plan().commit
    assert isinstance(commit, MergePatch)
    return dict(commit.patch["metadata"]["annotations"])


@pytest.mark.parametrize(
    ("edit", "fields"),
    [
        ({"entrypoint": "python other.py"}, "spec.entrypoint"),
        (
            {"runtimeEnvYAML": "pip: [a]", "metadata": {"a": "b"}},
            "spec.metadata, spec.runtimeEnvYAML",
        ),
        ({"entrypoint": "python job.py", "backoffLimit": 3, "shutdownAfterJobFinishes": True}, ""),
    ],
)
@pytest.mark.parametrize("state", ["Running", "Complete"])
def test_a_change_that_comes_too_late_for_the_job_is_named(
    edit: dict[str, Any], fields: str, state: str
):
    scene = by_submitter(state, meta={"annotations": submitted()}, **edit)
    found = find_condition(reported(scene.says(JobStatus.RUNNING).plan())["conditions"], TOO_LATE)
    if not fields:
        assert found is None
        return
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "SpecChanged")
    outlook = "a job that has ended" if state == "Complete" else "the job runs as it was submitted"
    start = f"changed after the job had been submitted: {fields}; {outlook}"
    assert found["message"].startswith(start)


def test_a_head_that_is_leaving_gets_no_job_and_is_given_ninety_seconds_to_answer():
    scene = Scene("Running").with_cluster().with_head(terminating=True)
    assert scene.knows_nothing().plan().commands == ()
    assert scene.says(JobStatus.RUNNING).plan().commit is None
    status = status_of(scene.fails(90).plan())
    assert is_head_lost(status)
    recording = Scene("Initializing", runs_on="").with_cluster().with_head(terminating=True)
    assert recording.plan().commit is None


def test_a_job_that_another_head_knows_is_stopped_there():
    spec: dict[str, Any] = {"suspend": True, "shutdownAfterJobFinishes": True}
    scene = Scene("Suspending", **spec).with_cluster().with_head(restarts=1)
    (order,) = scene.says(JobStatus.RUNNING).plan().commands
    assert isinstance(order.command, StopJob)
    assert scene.knows_nothing().plan().commands == ()


def test_a_job_whose_end_nobody_wrote_down_is_cleaned_up_all_the_same():
    spec: dict[str, Any] = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 90}
    scene = Scene("Complete", status={"jobStatus": "SUCCEEDED"}, **spec).with_cluster()
    assert scene.plan().requeue_after == 30
    assert writes(scene.plan(seconds=30)) == [f"delete RayCluster {CLUSTER}"]


@pytest.mark.parametrize("record", ["", "x", "uid-of-example-head-aaaaaaaa/many", "//", "a/b/c"])
def test_a_record_of_the_head_that_somebody_wrote_over_breaks_nothing(record: str):
    scene = running(runs_on=record).knows_nothing()
    assert scene.plan().commit is not None


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_submitter_in_the_head_that_ended_before_the_workers_were_ready_holds_nothing_up(
    exit_code: int,
):
    end = {"exitCode": exit_code, "finishedAt": "2026-08-20T09:59:00Z"}
    containers = [
        {"name": "ray-head", "state": {"running": {}}},
        {"name": "ray-job-submitter", "state": {"terminated": end}},
    ]
    scene = Scene("Initializing", submissionMode="SidecarMode").with_cluster("")
    scene.with_head(containers=containers)
    assert status_of(scene.plan())["jobDeploymentStatus"] == "Running"
    busy = Scene("Initializing", submissionMode="SidecarMode").with_cluster("").with_head()
    assert busy.plan().commit is None


def test_a_submitter_in_the_head_decides_nothing_by_its_exit():
    def scene(exit_code: int, value: JobStatus | None) -> Scene:
        end = {"exitCode": exit_code, "finishedAt": "2026-08-20T09:59:00Z", "reason": "Error"}
        containers = [
            {"name": "ray-head", "state": {"running": {}}},
            {"name": "ray-job-submitter", "state": {"terminated": end}},
        ]
        made = Scene("Running", submissionMode="SidecarMode").with_cluster()
        made.with_head(containers=containers)
        made.reads.logs[f"ray.io/cluster={CLUSTER},ray.io/node-type=head"] = LogText("x")
        return made.knows_nothing() if value is None else made.says(value)

    assert scene(1, JobStatus.RUNNING).plan().commit is None
    succeeded = status_of(scene(1, JobStatus.SUCCEEDED).plan())
    assert succeeded["jobDeploymentStatus"] == "Complete"
    assert status_of(scene(0, JobStatus.FAILED).plan())["reason"] == "AppFailed"
    assert status_of(scene(1, None).plan())["reason"] == "SubmissionFailed"
