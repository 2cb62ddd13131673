"""Batch schedulers of RayJobs: one group for the cluster and room for the submitter."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller.kube.resources import VOLCANO_POD_GROUPS
from controller.ray.api.batch_schedulers import (
    KAI,
    PLUGINS,
    VOLCANO,
    WORKLOAD_API,
    YUNIKORN,
    BatchScheduler,
)
from controller.ray.settings import RaySettings
from controller.runtime.kind import CreateError
from controller.runtime.plan import Create, Plan, Replace
from tests.ray.cluster.test_gangs import GANG, group, spec, with_meta
from tests.ray.job.rayjobs import UID
from tests.ray.job.scenes import CLUSTER, Scene

QUEUED = {"volcano.sh/queue-name": "team-a", "ray.io/priority-class-name": "high"}


def scene(
    state: str = "Initializing",
    scheduler: BatchScheduler = VOLCANO,
    *,
    labels: dict[str, str] | None = None,
    mode: str = "K8sJobMode",
    **more: Any,
) -> Scene:
    """A job whose cluster has a head and three workers."""
    more = {"rayClusterSpec": spec(group("small", 3)), "shutdownAfterJobFinishes": True} | more
    return Scene(
        state,
        meta={"labels": labels or {}},
        settings=RaySettings(batch_scheduler=scheduler),
        submissionMode=mode,
        **more,
    )


def served(made: Scene) -> Scene:
    made.reads.add(VOLCANO_POD_GROUPS)
    return made


def with_group(made: Scene, members: int, cpu: str = "3", memory: str = "3784Mi") -> Scene:
    """The same with the job's PodGroup of this size."""
    owner = {"kind": "RayJob", "name": "example", "uid": UID, "controller": True}
    body = {
        "metadata": {
            "name": "ray-example-pg",
            "namespace": "default",
            "uid": "uid-of-group",
            "resourceVersion": "7",
            "ownerReferences": [owner],
        },
        "spec": {"minMember": members, "minResources": {"cpu": cpu, "memory": memory}},
    }
    made.reads.add(VOLCANO_POD_GROUPS, msgspec.convert(body, VOLCANO_POD_GROUPS.view))
    return made


def stages(made: Plan) -> list[list[str]]:
    return [
        [f"{type(w).__name__} {w.target.resource.kind}" for w in stage] for stage in made.stages
    ]


def body(made: Plan, kind: str) -> Any:
    writes = [w for stage in made.stages for w in stage if isinstance(w, Create)]
    [found] = [w.body for w in writes if w.target.resource.kind == kind]
    return found


def ready(made: Plan) -> dict[str, Any]:
    assert made.status is not None
    [found] = [c for c in made.status.wanted["conditions"] if c["type"] == "Ready"]
    return found


def test_the_group_is_made_before_the_cluster_with_room_for_the_submitter():
    made = served(scene(labels=QUEUED)).plan()
    assert stages(made) == [["Create PodGroup"], ["Create RayCluster"]]
    wanted = body(made, "PodGroup")
    assert wanted["metadata"]["name"] == "ray-example-pg"
    assert wanted["metadata"]["ownerReferences"][0]["kind"] == "RayJob"
    assert wanted["spec"] == {
        "minMember": 4,  # the submitter waits for them, so they must not wait for it
        "minResources": {"cpu": "3", "memory": "3784Mi"},
        "queue": "team-a",
        "priorityClassName": "high",
    }
    cluster = body(made, "RayCluster")["metadata"]
    assert cluster["labels"].items() >= QUEUED.items()
    assert cluster["annotations"]["scheduling.k8s.io/group-name"] == "ray-example-pg"


@pytest.mark.parametrize(
    ("mode", "cpu", "memory"), [("SidecarMode", "3", "3784Mi"), ("HTTPMode", "2500m", "3584Mi")]
)
def test_only_a_submitter_that_is_a_pod_or_a_container_needs_room(mode: str, cpu: str, memory: str):
    wanted = body(served(scene(mode=mode)).plan(), "PodGroup")
    assert wanted["spec"]["minMember"] == 4
    assert wanted["spec"]["minResources"] == {"cpu": cpu, "memory": memory}


def test_a_group_that_shrank_is_whole_again_before_the_next_cluster():
    made = with_group(scene(), 0, "0", "0").plan()
    assert stages(made) == [["Replace PodGroup"], ["Create RayCluster"]]
    [[write], _] = made.stages
    assert isinstance(write, Replace)
    assert write.merge["spec"]["minMember"] == 4


@pytest.mark.parametrize("state", ["Suspending", "Suspended", "Retrying"])
def test_an_attempt_that_has_ended_gives_its_place_in_the_queue_back(state: str):
    made = with_group(scene(state, suspend=state != "Retrying"), 4).plan()
    writes = [w for stage in made.stages for w in stage if isinstance(w, Replace)]
    if state != "Suspended":  # nothing is left: the state changes first
        assert made.commit is not None or writes
        made = with_group(scene(state, suspend=True).with_cluster(), 4).plan()
        writes = [w for stage in made.stages for w in stage if isinstance(w, Replace)]
    [write] = writes
    nothing = {"minMember": 0, "minResources": {"cpu": None, "memory": None}}
    assert write.merge == {"spec": nothing}
    assert write.on_success is not None
    assert write.on_success.reason == "BatchSchedulerCleanedUp"


def test_a_finished_job_keeps_room_for_what_is_left_of_its_cluster():
    left = spec(group("small", 3, suspend=True))
    made = with_group(scene("Complete").with_cluster(**left), 4).plan()
    [write] = [w for stage in made.stages for w in stage if isinstance(w, Replace)]
    assert write.merge["spec"] == {"minMember": 1, "minResources": {"cpu": "1", "memory": "2Gi"}}
    made = with_group(scene("Complete"), 4).plan()
    [write] = [w for stage in made.stages for w in stage if isinstance(w, Replace)]
    assert write.merge["spec"]["minMember"] == 0
    assert not [w for stage in served(scene("Complete")).plan().stages for w in stage]


def test_without_volcano_no_cluster_is_made_and_the_job_says_why():
    made = scene().plan()
    assert not made.stages
    assert ready(made)["reason"] == "SchedulingGroupMissing"
    assert "podgroups.scheduling.volcano.sh" in ready(made)["message"]
    assert "install Volcano; the cluster is not created before" in ready(made)["message"]


def test_a_group_of_somebody_else_or_one_that_ends_holds_the_cluster_back():
    made = with_group(scene(), 4)
    [found] = [o for (plural, _), o in made.reads.objects.items() if plural == "podgroups"]
    made.reads.add(VOLCANO_POD_GROUPS, with_meta(found, owner_references=()))
    assert not made.plan().stages
    assert "PodGroup ray-example-pg exists" in ready(made.plan())["message"]
    made.reads.add(VOLCANO_POD_GROUPS, with_meta(found, deletion_timestamp="2026-08-20T10:00:00Z"))
    assert not made.plan().stages
    assert "is being deleted" in ready(made.plan())["message"]


def test_a_refused_group_is_the_cause_as_long_as_it_waits_for_its_next_try():
    made = served(scene())
    message = 'admission webhook "validatepodgroup.volcano.sh" denied the request: queue is closed'
    made.reads.refused = {"PodGroup/default/ray-example-pg": CreateError("Forbidden", message)}
    assert "queue is closed" in ready(made.plan())["message"]


def test_a_group_whose_create_was_not_answered_holds_the_cluster_back():
    made = served(scene())
    made.reads.pending = frozenset({"PodGroup ray-example-pg"})
    assert not made.plan().stages


def test_yunikorn_counts_the_submitter_as_a_group_of_its_own():
    labels = {"yunikorn.apache.org/queue": "root.a", **GANG}
    made = scene(scheduler=YUNIKORN, labels=labels).plan()
    cluster = body(made, "RayCluster")["metadata"]
    groups = json.loads(cluster["annotations"]["yunikorn.apache.org/task-groups"])
    assert [each["name"] for each in groups] == ["headgroup", "small", "submittergroup"]
    assert groups[2]["minResource"] == {"cpu": "500m", "memory": "200Mi"}
    assert "yunikorn.apache.org/task-group-name" not in cluster["annotations"]
    assert cluster["labels"]["queue"] == "root.a"


@pytest.mark.parametrize(
    ("scheduler", "annotations"),
    [
        (
            VOLCANO,
            {
                "scheduling.k8s.io/group-name": "ray-example-pg",
                "volcano.sh/task-spec": "submittergroup",
            },
        ),
        (YUNIKORN, {}),
        (WORKLOAD_API, {}),
    ],
)
def test_the_submitters_pod_belongs_to_the_group(
    scheduler: BatchScheduler, annotations: dict[str, str]
):
    made = scene("Running", scheduler, labels=QUEUED).with_cluster().with_head()
    submitter = body(with_group(made, 4).plan(), "Job")["spec"]["template"]
    if scheduler is WORKLOAD_API:
        assert "schedulerName" not in submitter["spec"]
    else:
        assert submitter["spec"]["schedulerName"] == scheduler.pods_name
    assert submitter["metadata"].get("annotations", {}) == annotations
    assert ("volcano.sh/queue-name" in submitter["metadata"]["labels"]) is (scheduler is VOLCANO)


@pytest.mark.parametrize(
    ("scheduler", "more", "words"),
    [
        (KAI, {}, "spec.submissionMode: is K8sJobMode: batch scheduler kai-scheduler"),
        (PLUGINS, {}, "batch scheduler scheduler-plugins schedules RayClusters only"),
        (
            VOLCANO,
            {
                "clusterSelector": {"ray.io/cluster": CLUSTER},
                "rayClusterSpec": None,
                "shutdownAfterJobFinishes": None,
            },
            "spec.clusterSelector: selects a cluster",
        ),
    ],
)
def test_a_job_that_the_scheduler_cannot_run_says_so_at_once(
    scheduler: BatchScheduler, more: dict[str, Any], words: str
):
    made = scene("", scheduler, **more).plan()
    assert made.commit is not None
    status = str(made.commit)
    assert "ValidationFailed" in status
    assert words in status


def test_kai_runs_jobs_whose_submitter_needs_no_pod():
    made = scene(scheduler=KAI, mode="SidecarMode").plan()
    assert stages(made) == [["Create RayCluster"]]
