"""When a Job has ended, whatever webhooks and meshes put beside its containers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import failed_alive, job_end, others_alive
from controller.kube.objects import Job, Pod

PROXY: dict[str, Any] = {"name": "istio-proxy", "state": {"running": {}}}
AT = "2026-08-20T10:00:00Z"


def job(condition: str = "", *, failed: int = 0, limit: int | None = 2, **status: Any) -> Job:
    containers = [{"name": "work"}]
    spec: dict[str, Any] = {"backoffLimit": limit, "template": {"spec": {"containers": containers}}}
    ended = {"type": condition, "status": "True", "reason": "Why", "message": "so"}
    conditions = [ended | {"lastTransitionTime": AT}] if condition else []
    whole = {"conditions": conditions, "failed": failed} | status
    return msgspec.convert({"spec": spec, "status": whole}, Job)


def ended(code: int, name: str = "work") -> dict[str, Any]:
    end = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": AT}
    return {"name": name, "state": {"terminated": end}}


def pod(
    *containers: dict[str, Any],
    phase: str = "Running",
    restarts: str = "Never",
    going: bool = False,
    created: str = AT,
) -> Pod:
    metadata = {"name": "p", "deletionTimestamp": AT if going else None}
    raw = {
        "metadata": metadata | {"creationTimestamp": created},
        "spec": {"restartPolicy": restarts},
        "status": {"phase": phase, "containerStatuses": list(containers)},
    }
    return msgspec.convert(raw, Pod)


def succeeded(found: Job, *pods: Pod, names: tuple[str, ...] = ()) -> bool | None:
    end = job_end(found, pods, names)
    return None if end is None else end.succeeded


@pytest.mark.parametrize("containers", [(ended(0), PROXY), (PROXY, ended(0))])
def test_a_job_has_succeeded_when_its_own_container_has_wherever_the_proxy_stands(
    containers: tuple[dict[str, Any], ...],
):
    end = job_end(job(), [pod(*containers)])
    assert end is not None
    assert (end.succeeded, end.finished) == (True, False)


def test_the_failure_of_a_proxy_is_not_that_of_the_job():
    assert succeeded(job(), pod(ended(0), ended(143, "istio-proxy"), phase="Failed")) is True
    assert succeeded(job(), pod({"name": "work", "state": {"running": {}}}, ended(1, "x"))) is None


def test_a_container_that_was_told_to_end_has_not_done_its_work():
    assert succeeded(job(), pod(ended(0), PROXY, going=True)) is None


@pytest.mark.parametrize(("failed", "over"), [(0, None), (1, None), (2, False), (3, False)])
def test_a_failure_counts_when_no_attempt_is_left(failed: int, over: bool | None):
    found = job(failed=failed, limit=2)
    assert succeeded(found, pod(ended(1), PROXY)) is over
    assert succeeded(job(limit=None, failed=5), pod(ended(1), PROXY)) is None


def test_a_failed_pod_that_a_proxy_keeps_alive_must_be_ended_by_somebody():
    alive = pod(ended(1), PROXY)
    assert failed_alive(job(), [alive]) == [alive]
    assert others_alive(alive, ("work",)) == ["istio-proxy"]
    for fine in (
        pod(ended(0), PROXY),
        pod(ended(1), phase="Failed"),
        pod(ended(1), PROXY, going=True),
        pod(ended(1), PROXY, restarts="OnFailure"),
    ):
        assert failed_alive(job(), [fine]) == []


def test_a_container_that_is_restarted_has_not_failed():
    assert succeeded(job(limit=0), pod(ended(1), PROXY, restarts="OnFailure")) is None
    assert succeeded(job(limit=0), pod(ended(0), PROXY, restarts="OnFailure")) is True


def test_every_own_container_must_end_unless_one_decides():
    two = {"containers": [{"name": "train"}, {"name": "push"}]}
    found = msgspec.convert({"spec": {"template": {"spec": two}}}, Job)
    pushing = pod(ended(0, "train"), {"name": "push", "state": {"running": {}}}, PROXY)
    assert succeeded(found, pushing) is None
    assert succeeded(found, pushing, names=("train",)) is True
    both = pod(ended(0, "train"), ended(0, "push"), PROXY)
    assert succeeded(found, both) is True


@pytest.mark.parametrize(
    ("condition", "expected"), [("Complete", True), ("Failed", False), ("FailureTarget", False)]
)
def test_what_kubernetes_says_comes_first(condition: str, expected: bool):
    end = job_end(job(condition), [pod(ended(7), phase="Failed")])
    assert end is not None
    assert (end.succeeded, end.finished) == (expected, True)
    assert end.last is not None
    assert end.last.exit_code == 7, "how the last pod ended is known beside it"
    assert end.reason == ("" if expected else "Why: so")


def test_the_newest_pod_has_the_last_word():
    older = pod(ended(1), phase="Failed", created="2026-08-20T09:00:00Z")
    end = job_end(job("Failed"), [pod(ended(3), phase="Failed"), older])
    assert end is not None
    assert end.last is not None
    assert end.last.exit_code == 3
