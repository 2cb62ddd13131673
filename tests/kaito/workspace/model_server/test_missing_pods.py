"""A server or a job whose pods are refused: only the events of its object tell of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.kaito.api.workspace import Workspace
from controller.kaito.workspace.watches import PODS
from controller.kube.objects import Job, StatefulSet
from controller.runtime.kind import FailedCreate
from controller.runtime.plan import FailedCreates
from tests.kaito.support import tuning, workspace
from tests.kaito.workspace.given import NOW, Given, job, server
from tests.kaito.workspace.pods import ended, pod, waiting

TEMPLATE = {"template": {"spec": {"containers": [{"name": "server", "image": "x"}]}}}
FLOOR = "the pod is forbidden: minimum memory usage per Container is 512Mi, but request is 200Mi"
FULL = "the pod is forbidden: exceeded quota: team, requested: pods=1, limited: pods=0"
SAID = "the pod is forbidden: failed quota: team: must specify requests.cpu for: phi"
LOOK = (FailedCreates("default", "uid-phi", NOW),)


def aged(found: Any, seconds: float = 60) -> Any:
    created = rfc3339(NOW - timedelta(seconds=seconds))
    return replace(found, metadata=replace(found.metadata, creation_timestamp=created))


def served(
    found: StatefulSet | None = None, space: Workspace | None = None, seconds: float = 60
) -> Given:
    given = Given(space or workspace()).with_nodes().with_revision().with_services()
    return given.with_server(aged(found or server(0), seconds))


def tuned(found: Job | None = None) -> Given:
    given = Given(workspace(tuning=tuning())).with_nodes().with_revision()
    return given.with_job(aged(found or job()))


def told(given: Given, message: str = "", *, ago: float = 1, unavailable: str = "") -> Given:
    found = FailedCreate(NOW - timedelta(seconds=ago), message, unavailable)
    given.reads.failed_creates["uid-phi"] = found
    return given


def test_events_are_read_when_a_pod_is_missing_for_some_seconds_and_then_seldom():
    assert served().plan().lookups == LOOK
    assert tuned().plan().lookups == LOOK
    young = served(seconds=2).plan()
    assert (young.lookups, young.requeue_after) == ((), 3)
    known = told(served(), FULL, ago=10).plan()
    assert (known.lookups, known.requeue_after) == ((), 20)
    assert told(served(), FULL, ago=31).plan().lookups == LOOK


def test_who_lacks_no_pod_is_not_asked():
    all_there = served()
    all_there.reads.add(PODS, pod())
    assert all_there.plan().lookups == ()
    one_of_two = served(server(0, 2))
    one_of_two.reads.add(PODS, pod())
    assert one_of_two.plan().lookups == LOOK
    assert served(server(0, 0)).plan().lookups == (), "somebody has scaled it to zero"
    assert served(server(1)).plan().lookups == (), "it serves, whoever's the pods are"
    going = server(0)
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp=rfc3339(NOW)))
    assert served(going).plan().lookups == ()
    suspended = job()
    suspended = replace(suspended, spec=replace(suspended.spec, suspend=True))
    assert tuned(suspended).plan().lookups == ()
    assert tuned(suspended).condition("JobStarted")[2] == (
        "Tuning job has not started; Job phi is suspended and creates no pod: another manager, "
        "such as Kueue, has set its spec.suspend; let it admit the Job, or exempt Jobs of "
        "Workspaces from it"
    )
    over = job(condition="Failed")
    over = replace(over, spec=replace(over.spec, suspend=True))
    assert "suspended" not in tuned(over).condition("JobStarted")[2]
    assert tuned(job(condition="Complete")).plan().lookups == ()
    failed = tuned(job(failed=1))
    failed.reads.add(PODS, pod(phase="Failed"))
    assert failed.plan().lookups == LOOK, "the next attempt has no pod"


@pytest.mark.parametrize(
    ("inference", "refusal", "reason", "remedy"),
    [
        (
            TEMPLATE,
            FLOOR,
            "LimitRangeViolated",
            "change the resources in inference.template, or ask for another LimitRange",
        ),
        (
            None,
            FLOOR,
            "LimitRangeViolated",
            "ask for another LimitRange: inference.preset settles what is in the pod",
        ),
        (None, FULL, "QuotaExceeded", "ask for a larger quota"),
        (
            None,
            SAID,
            "QuotaNeedsResources",
            "give the namespace a LimitRange with defaults for them",
        ),
        (None, "Timeout: too slow", "WriteRefused", "Kubernetes tries again"),
    ],
)
def test_a_refused_pod_of_a_server_is_the_cause_with_what_can_be_done(
    inference: dict[str, Any] | None, refusal: str, reason: str, remedy: str
):
    space = workspace(inference=inference) if inference else workspace()
    assert told(served(space=space), refusal).condition("InferenceReady") == (
        "False",
        reason,
        f"StatefulSet phi cannot create its pod: {refusal}; {remedy}",
    )


def test_a_refused_pod_of_a_tuning_is_the_cause_before_how_an_earlier_one_ended():
    said = told(tuned(), FLOOR).condition("JobStarted")[2]
    assert said.endswith(
        f"Job phi cannot create its pod: {FLOOR}; ask for another LimitRange: tuning.preset "
        "settles what is in the pod"
    )
    again = told(tuned(job(failed=1)), FULL)
    again.reads.add(PODS, pod(phase="Failed", containerStatuses=[waiting("x", last=ended(3))]))
    assert "exceeded quota: team" in again.condition("JobStarted")[2]


def test_events_that_cannot_be_read_are_said_only_if_no_pod_tells_more():
    lone = told(served(), unavailable="events is forbidden").condition("InferenceReady")
    assert lone[1] == "PodsMissing"
    for words in ("kubectl describe statefulset phi", "events is forbidden", "the verb list on"):
        assert words in lone[2]
    given = told(served(server(0, 2)), unavailable="events is forbidden")
    given.reads.add(PODS, pod(containerStatuses=[waiting("ImagePullBackOff", "no such image")]))
    assert given.condition("InferenceReady")[1] == "ImagePullError"
