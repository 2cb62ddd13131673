"""An attempt whose head was ready and is lost before the operator saw the job run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.ray.api import RAYCLUSTERS
from controller.runtime.plan import MergePatch
from tests.ray.job.scenes import Scene, cluster

NEVER_AGAIN = {"ray.io/disable-provisioned-head-restart": "true"}
PROVISIONED = {"type": "RayClusterProvisioned", "status": "True"}
NO_HEAD = {"type": "HeadPodReady", "status": "False", "reason": "HeadPodNotFound"}
SUSPENDED = {"type": "RayClusterSuspended", "status": "True"}


def scene(
    annotations: dict[str, str] | None = NEVER_AGAIN,
    conditions: tuple[dict[str, Any], ...] = (PROVISIONED, NO_HEAD),
) -> Scene:
    made = Scene("Initializing", runs_on="", submissionMode="SidecarMode", backoffLimit=1)
    found = cluster("")
    found = msgspec.structs.replace(
        found,
        metadata=msgspec.structs.replace(found.metadata, annotations=annotations),
        status={"state": "ready", "conditions": list(conditions)},
    )
    made.reads.add(RAYCLUSTERS, found)
    return made


def status_after(here: Scene) -> dict[str, Any]:
    """The status that a transition writes; empty if there is none."""
    commit = here.plan().commit
    return dict(commit.patch.get("status", {})) if isinstance(commit, MergePatch) else {}


def test_the_attempt_fails_and_is_retried_on_a_fresh_cluster():
    status = status_after(scene())
    assert status["jobDeploymentStatus"] == "Retrying"
    [attempt] = status["attempts"]
    assert attempt["reason"] == "HeadLost"
    assert attempt["message"] == (
        "HeadLost: the head that the job ran on is lost: the head of cluster example-abcde is gone"
    )


@pytest.mark.parametrize("odd", [None, "odd", 7, {}, [None], [{"type": ["odd"]}]])
def test_odd_conditions_of_the_cluster_lose_no_head(odd: Any):
    here = scene()
    found = here.reads.get(RAYCLUSTERS, "default/example-abcde")
    assert found is not None
    here.reads.add(RAYCLUSTERS, msgspec.structs.replace(found, status={"conditions": odd}))
    assert status_after(here).get("jobDeploymentStatus") != "Retrying"


@pytest.mark.parametrize(
    "here",
    [
        scene(annotations=None),
        scene(conditions=(NO_HEAD,)),
        scene(conditions=(PROVISIONED,)),
        scene(conditions=(PROVISIONED, NO_HEAD, SUSPENDED)),
        scene().with_head(),
    ],
    ids=["may restart", "never ready", "not missed", "suspended", "not seen by the cluster yet"],
)
def test_a_head_that_may_come_or_come_back_is_waited_for(here: Scene):
    assert status_after(here).get("jobDeploymentStatus") != "Retrying"
