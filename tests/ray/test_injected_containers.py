"""Whatever a webhook inserts into a pod, Manta looks at Ray's container and at no other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api.pod_state import ray_container
from controller.ray.cluster.rollout import Verdict
from controller.runtime.plan import Delete
from tests.ray.cluster.support import cluster, head, plan, workers
from tests.ray.cluster.test_plan import settled, verbs
from tests.ray.cluster.upgrade.rolling.scenes import (
    decided,
    new,
    observed,
    old,
    rolling,
    the_head,
)
from tests.ray.injected import PROXY, WEBHOOKS, injected
from tests.ray.job.rayjobs import is_head_lost
from tests.ray.job.scenes import Scene, head_pod
from tests.ray.job.test_job_plan import status_of
from tests.ray.pods.test_builder import pods_of
from tests.samples import case

KILLED: dict[str, Any] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
all_webhooks = pytest.mark.parametrize("how", WEBHOOKS)


def with_broken_proxy(pod: Pod, **state: Any) -> Pod:
    """The pod, whose injected container is like this."""
    raw = msgspec.to_builtins(pod)
    statuses = raw["status"]["containerStatuses"]
    raw["status"]["containerStatuses"] = [
        each | (state if each["name"] == PROXY["name"] else {}) for each in statuses
    ]
    return msgspec.convert(raw, Pod)


def dead_head() -> Pod:
    ray = {"name": "ray-head", "state": KILLED}
    return head(restart_policy="Never", ready=False, containers=[ray])


@all_webhooks
def test_a_dead_head_that_nothing_restarts_is_replaced(how: str):
    dead = injected(dead_head(), how)
    assert verbs(plan(settled(cluster(), dead, *workers(2))), Delete) == [dead.metadata.name]


@all_webhooks
def test_a_head_whose_proxy_has_died_is_not_replaced(how: str):
    ray: dict[str, Any] = {"name": "ray-head", "ready": True, "state": {"running": {}}}
    proxy_died = with_broken_proxy(
        injected(head(restart_policy="Never", ready=False, containers=[ray]), how), state=KILLED
    )
    assert verbs(plan(settled(cluster(), proxy_died, *workers(2))), Delete) == []


@all_webhooks
def test_a_rayjob_is_lost_with_a_head_that_was_restarted_in_place(how: str):
    ray: dict[str, Any] = {
        "name": "ray-head",
        "restartCount": 1,
        "state": {"running": {}},
        "lastState": KILLED,
    }
    scene = Scene("Running").with_cluster()
    scene.reads.add(PODS, injected(head_pod(containers=[ray]), how))
    status = status_of(scene.knows_nothing().plan())
    assert is_head_lost(status)
    assert "with exit code 137 (OOMKilled)" in status["message"]


@all_webhooks
def test_a_rolling_update_stops_when_ray_ends_in_the_first_new_pod(how: str):
    raw = rolling(1, image="example.com/mine:1")
    ended = {"name": "ray-worker", "state": {"terminated": {"exitCode": 1}}}
    trial = injected(new(raw, "new", ready=False, containers=[ended]), how)
    rollout = decided(observed(raw, the_head(raw), old("a"), trial))
    assert rollout.verdict is Verdict.INCOMPATIBLE_VERSIONS


@all_webhooks
def test_a_rolling_update_goes_on_when_the_proxy_of_the_first_new_pod_restarts(how: str):
    raw = rolling(1, image="example.com/mine:1")
    starting: dict[str, Any] = {"name": "ray-worker", "state": {"running": {}}}
    trial = injected(new(raw, "new", ready=False, containers=[starting]), how)
    rollout = decided(observed(raw, the_head(raw), old("a"), trial))
    assert rollout.verdict is not Verdict.INCOMPATIBLE_VERSIONS


@pytest.mark.parametrize("insert", [0, 99])
def test_in_every_pod_that_manta_creates_rays_container_is_found(insert: int):
    """The report: a mesh and Vault in head and workers, beside the autoscaler's sidecar."""
    (raw,) = case("20-injected-container-first.yaml")
    raw["metadata"]["name"] = "example"
    del raw["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"]
    raw["spec"]["enableInTreeAutoscaling"] = True
    found: list[str] = []
    for body in pods_of(raw):
        body["spec"]["containers"].insert(insert, PROXY)
        made = msgspec.convert(body, Pod)
        container = ray_container(made)
        found.append(container.name if container is not None else "")
    assert found == ["ray-head", "ray-worker", "ray-worker"]
