"""A cleanup Job whose pod is refused: the deleted cluster says why it waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.kube.resources import JOBS, PODS
from controller.runtime.kind import FailedCreate
from controller.runtime.plan import FailedCreates
from controller.testing.reads import FakeReads
from tests.ray.cluster.deletion.redis import JOB, cleanup_job, redis_cluster
from tests.ray.cluster.support import NOW, plan, pod, reads, with_meta

FLOOR = "the pod is forbidden: minimum memory usage per Container is 1Gi, but request is 256Mi"
FULL = "the pod is forbidden: exceeded quota: team, requested: pods=1, limited: pods=0"
RESTRICTED = 'the pod is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'


def deleted(
    seconds: float = 60,
    message: str = "",
    *,
    ago: float = 1,
    suspend: bool = False,
    terminating: bool = False,
    **status: Any,
) -> FakeReads:
    """A cluster deleted so long ago, whose Job has existed since then and has no pod."""
    job = cleanup_job(terminating=terminating)
    job = replace(job, spec=replace(job.spec, suspend=suspend))
    created = rfc3339(NOW - timedelta(seconds=seconds))
    job = with_meta(job, creation_timestamp=created)
    job = replace(job, status=replace(job.status, active=0, **status))
    kept = reads(redis_cluster(deleted=seconds), listed=True).add(JOBS, job)
    if message:
        kept.failed_creates["uid-of-job"] = FailedCreate(NOW - timedelta(seconds=ago), message)
    return kept


def message_of(kept: FakeReads) -> str:
    patch = plan(kept).status
    assert patch is not None
    [ready] = [each for each in patch.wanted["conditions"] if each["type"] == "Ready"]
    return ready["message"]


def test_events_of_a_job_without_a_pod_are_read_after_some_seconds_and_then_seldom():
    assert plan(deleted()).lookups == (FailedCreates("default", "uid-of-job", NOW),)
    young = plan(deleted(2))
    assert (young.lookups, young.requeue_after) == ((), 3)
    known = plan(deleted(60, FULL, ago=10))
    assert (known.lookups, known.requeue_after) == ((), 20)
    near = plan(deleted(295, FULL, ago=10))
    assert (near.lookups, near.requeue_after) == ((), 5), "the deadline comes first"


def test_a_job_that_lacks_no_pod_is_not_asked():
    assert plan(deleted(failed=1)).lookups == (), "it had its pod"
    assert plan(deleted(suspend=True)).lookups == ()
    assert plan(deleted(terminating=True)).lookups == ()
    its_pod = pod(
        f"{JOB}-x",
        "headgroup",
        labels={"ray.io/node-type": "redis-cleanup"},
        owner_uid="uid-of-job",
    )
    assert plan(deleted().add(PODS, its_pod)).lookups == ()


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (FULL, "ask for a larger quota"),
        (FLOOR, "ask for another LimitRange: this Job always has 200m of CPU and 256Mi of memory"),
        (
            RESTRICTED,
            (
                "set the securityContext in spec.headGroupSpec.template, and delete this Job, "
                "which is then created anew"
            ),
        ),
    ],
)
def test_what_refuses_the_pod_is_told_with_what_can_be_done(refusal: str, remedy: str):
    said = message_of(deleted(60, refusal))
    assert f"waiting for Job {JOB} to remove its state from Redis, until " in said
    assert said.endswith(f": Job {JOB} cannot create its pod: {refusal}; {remedy}")


def test_the_last_event_names_it_too():
    for kept in (deleted(300, FULL), deleted(60, FULL, conditions=failed())):
        commit = plan(kept).commit
        assert commit is not None
        assert commit.on_success is not None
        assert "exceeded quota: team" in commit.on_success.note
        assert "external storage namespace" in commit.on_success.note


def failed() -> Any:
    return cleanup_job("Failed").status.conditions
