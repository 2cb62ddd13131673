"""A cluster that has two heads for a moment has one that counts, and everybody means the same."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.dashboard import JobStatus
from controller.runtime.plan import Create, Delete
from tests.ray.cluster.support import cluster, head, manifest, plan, reads, with_meta
from tests.ray.cluster.test_plan import settled, verbs
from tests.ray.job.scenes import Scene, head_pod

EARLIER, LATER = "2026-08-20T09:00:00Z", "2026-08-20T09:30:00Z"
RUNS: dict[str, Any] = {"name": "ray-head", "ready": True, "state": {"running": {}}}
CRASHED: dict[str, Any] = {
    "name": "ray-head",
    "restartCount": 4,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
}
STARTS: dict[str, Any] = {"name": "ray-head", "state": {"waiting": {"reason": "PodInitializing"}}}

PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "both are ready": ({}, {}, "z"),
    "the later one is not ready": ({}, {"ready": False, "containers": [STARTS]}, "z"),
    "the earlier one is not ready": ({"ready": False, "containers": [RUNS]}, {}, "a"),
    "the earlier one crashes": (
        {"ready": False, "containers": [CRASHED]},
        {"ready": False, "containers": [STARTS]},
        "a",
    ),
}
all_pairs = pytest.mark.parametrize(("earlier", "later", "chosen"), PAIRS.values(), ids=PAIRS)


def aged(pod: Pod, name: str, created: str) -> Pod:
    own = {**(pod.metadata.labels or {}), labels.APP_NAME: name}
    return with_meta(pod, uid=f"uid-of-{name}", creation_timestamp=created, labels=own)


@all_pairs
def test_the_head_that_is_kept_is_the_one_in_the_status_and_behind_the_service(
    earlier: dict[str, Any], later: dict[str, Any], chosen: str
):
    pods = [
        aged(head("z", **{"containers": [RUNS]} | earlier), "z", EARLIER),
        aged(head("a", **{"containers": [RUNS]} | later), "a", LATER),
    ]
    made = plan(settled(cluster(), *pods))
    assert verbs(made, Delete) == ["a" if chosen == "z" else "z"]
    assert made.status is not None
    assert made.status.wanted["head"]["podName"] == chosen
    (service,) = [
        write.body
        for stage in plan(reads(cluster(manifest()), *pods)).stages
        for write in stage
        if isinstance(write, Create) and write.target.name == "example-head-svc"
    ]
    assert service["spec"]["selector"][labels.APP_NAME] == chosen


def test_a_rayjob_goes_on_at_its_head_while_another_one_exists_for_a_moment():
    scene = Scene("Running").with_cluster().with_head(ready=True)
    second = head_pod("example-head-zzzzzzzz", ready=True)
    scene.reads.add(PODS, with_meta(second, creation_timestamp=LATER))
    assert scene.says(JobStatus.RUNNING).plan().commit is None
