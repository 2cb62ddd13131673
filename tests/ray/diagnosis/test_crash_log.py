"""Which log is read of a pod that crashes without a word, and what the first cause says then."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.ray.diagnosis.crash_log import log_to_read
from controller.runtime.kind import LogText
from controller.runtime.plan import LogTail, MergePatch
from tests.ray.cluster.support import cluster, plan, pod, reads, with_children, workers, writes

TEXT = "starting\nRuntimeError: no GPU found\n"
END = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-08-20T09:58:30Z"}
RUNNING = {"running": {"startedAt": "2026-08-20T09:59:00Z"}}
HEAD = "example-head-aaaaaaaa"


def status(name: str, *, end: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The status of a container that runs again after this end."""
    last = {"lastState": {"terminated": END | (end or {})}, "restartCount": 3}
    return {"name": name, "ready": False, "state": RUNNING, **last} | more


def crashing(name: str = HEAD, **more: Any) -> Any:
    group = "headgroup" if "-head-" in name else "workers"
    container = "ray-head" if group == "headgroup" else "ray-worker"
    more = {"containerStatuses": [status(container)]} | more
    return pod(name, group, ready=False, **more)


def tail(name: str = HEAD, container: str = "ray-head", **more: Any) -> LogTail:
    return LogTail("default", "", container, pod=name, **{"previous": True, "restarts": 3} | more)


def test_the_head_comes_before_older_workers():
    worker = crashing("example-workers-worker-00000000", created="2026-08-20T08:00:00Z")
    assert log_to_read([worker, crashing()]) == tail()
    assert log_to_read([worker]) == tail(worker.metadata.name, "ray-worker")


@pytest.mark.parametrize(
    ("container", "asked"),
    [
        (status("ray-head", state={"terminated": END}, lastState={}, restartCount=0), (False, 0)),
        (status("ray-head", state={"waiting": {"reason": "CrashLoopBackOff"}}), (True, 3)),
        (status("ray-head", end={"exitCode": 0}), (True, 3)),
        (status("ray-head", end={"message": "no such address\n"}), None),
        (status("ray-head", end={"reason": "OOMKilled"}), None),
        (status("ray-head", ready=True), None),
        (status("ray-head", lastState={}, restartCount=0), None),
    ],
)
def test_a_log_is_read_if_the_end_is_not_explained(
    container: dict[str, Any], asked: tuple[bool, int] | None
):
    found = log_to_read([crashing(containerStatuses=[container])])
    assert (None if found is None else (found.previous, found.restarts)) == asked


def test_a_sidecar_that_crashes_counts_as_well():
    ray = status("ray-head", ready=True, lastState={}, restartCount=0)
    found = log_to_read([crashing(containerStatuses=[ray, status("autoscaler")])])
    assert found == tail(container="autoscaler")


def test_pods_that_go_or_whose_kubelet_does_not_answer_are_not_asked():
    gone = crashing(terminating=True)
    lost = pod(HEAD, "headgroup", reason="NodeLost", ready=False, containerStatuses=[status("r")])
    assert log_to_read([gone, lost]) is None


def message(*pods: Any, log: LogText | None = None) -> str:
    kept = with_children(reads(cluster(), *pods))
    kept.logs = {} if log is None else {HEAD: log}
    found = plan(kept).status
    assert found is not None
    return str((find_condition(found.wanted["conditions"], "Ready") or {})["message"])


def test_the_first_cause_quotes_the_error_of_the_log():
    said = message(crashing(), *workers(2), log=LogText(TEXT))
    assert f"pod {HEAD} crashes: container ray-head last ended with exit code 1 (Error)" in said
    assert "saying: RuntimeError: no GPU found; see `kubectl logs" in said


def test_a_log_that_cannot_be_read_leaves_the_cause_as_it_is():
    said = message(crashing(), *workers(2), log=LogText(unavailable="forbidden"))
    assert "exit code 1 (Error)" in said
    assert "saying" not in said


def test_each_end_is_asked_for_once_and_nothing_that_is_to_be_written_waits_for_it():
    fresh = with_children(reads(cluster(), crashing(), *workers(2)))
    fresh.unread_logs = True
    stamps = plan(fresh)
    assert stamps.lookups == ()
    assert len(stamps.independent) == 3
    hashes: dict[str, Any] = {
        each.target.name: each.patch["metadata"]
        for each in stamps.independent
        if isinstance(each, MergePatch)
    }
    pods = (crashing(**hashes[HEAD]), *workers(2, **hashes["example-workers-worker-00000000"]))
    kept = with_children(reads(cluster(), *pods))
    kept.unread_logs = True
    assert plan(kept).lookups == (tail(),)
    assert plan(kept).status is None
    missing = with_children(reads(cluster(), *pods[:2]))
    missing.unread_logs = True
    assert plan(missing).lookups == ()
    assert [each.split()[0] for each in writes(plan(missing))] == ["create"]
