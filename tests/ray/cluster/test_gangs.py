"""Batch schedulers: what pods carry, the groups they belong to, and what waits for these."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.resources import PLUGIN_POD_GROUPS, PODS, WORKLOADS, Resource
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.batch_schedulers import (
    BATCH_SCHEDULERS,
    KAI,
    PLUGINS,
    VOLCANO,
    WORKLOAD_API,
    YUNIKORN,
    BatchScheduler,
)
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.settings import RaySettings
from controller.runtime.plan import Create, Delete, MergePatch, Plan, Replace
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import UID, cluster, head, plan, pod, with_meta, workers, writes

GANG = {"ray.io/gang-scheduling-enabled": "true"}
OWNER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "name": "example",
    "uid": UID,
    "controller": True,
    "blockOwnerDeletion": True,
}


def template(cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    limits = {"memory": memory} | more.pop("limits", {})
    resources = {"requests": {"cpu": cpu}, "limits": limits}
    ray = {"name": "ray", "image": "rayproject/ray:2.54.0", "resources": resources}
    return {"spec": {"containers": [ray], **more}}


def group(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    made = {"groupName": name, "replicas": replicas, "minReplicas": 1, "maxReplicas": 9}
    return made | {"rayStartParams": {}, "template": template("500m", "512Mi")} | more


def spec(*groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    top = {"rayStartParams": {}, "template": template("1", "2Gi")}
    return {"headGroupSpec": top, "workerGroupSpecs": list(groups), **more}


def slices() -> dict[str, Any]:
    accelerators = template("2", "1Gi", limits={"nvidia.com/gpu": "1"}, nodeSelector={"a": "b"})
    return group("gpus", 2, numOfHosts=2, template=accelerators)


def stored(
    scheduler: BatchScheduler,
    wanted: dict[str, Any],
    *objects: Any,
    labels: dict[str, str] | None = None,
    served: bool = True,
    **meta: Any,
) -> tuple[FakeReads, RayClusterKind]:
    """A cache with the cluster, its other children, and these objects."""
    kind = RayClusterKind(RaySettings(batch_scheduler=scheduler))
    obj = cluster({"metadata": {"name": "example"}, "spec": wanted})
    kept = FakeReads(kind).add(RAYCLUSTERS, with_meta(obj, labels=labels, **meta))
    for each in objects:
        kept.add(_resource(scheduler, each), each)
    if served:
        for resource in scheduler.groups:
            kept.add(resource)
    seen = kind.observe("default/example", kept)
    absent = seen.children.absent if isinstance(seen, ClusterObservation) else ()
    for child in absent:
        if child.resource not in scheduler.groups:
            body = {**child.body, "metadata": child.body["metadata"] | {"namespace": "default"}}
            kept.add(child.resource, msgspec.convert(body, child.resource.view))
    return kept, kind


def _resource(scheduler: BatchScheduler, obj: Any) -> Resource[Any]:
    return next((each for each in scheduler.groups if type(obj) is each.view), PODS)


def created(made: Plan, kind: str) -> list[Any]:
    found = [write for stage in made.stages for write in stage if isinstance(write, Create)]
    return [write.body for write in found if write.target.resource.kind == kind]


def existing(resource: Resource[Any], body: dict[str, Any], **meta: Any) -> Any:
    metadata = {"uid": "uid-of-group", "resourceVersion": "7", "namespace": "default"} | meta
    return msgspec.convert(body | {"metadata": body["metadata"] | metadata}, resource.view)


def groups_of(scheduler: BatchScheduler, wanted: dict[str, Any], **more: Any) -> list[Any]:
    """The groups of a cluster, as the API server would have stored them."""
    made = plan(*stored(scheduler, wanted, **more))
    bodies = [*created(made, "Workload"), *created(made, "PodGroup")]
    by_kind = {each.kind: each for each in scheduler.groups}
    return [existing(by_kind[body["kind"]], body) for body in bodies]


def marks(body: dict[str, Any]) -> dict[str, Any]:
    meta, wanted = body["metadata"], body["spec"]
    own = ("ray.io/", "app.kubernetes.io/", "manta.dev/")
    return {
        "labels": {k: v for k, v in meta["labels"].items() if not k.startswith(own)},
        "annotations": {k: v for k, v in meta["annotations"].items() if not k.startswith(own)},
        "scheduler": wanted.get("schedulerName"),
        "group": wanted.get("schedulingGroup"),
    }


def pods(made: Plan) -> dict[str, dict[str, Any]]:
    """What the new pods carry for a scheduler, by group."""
    return {
        each["metadata"]["labels"]["ray.io/group"]: marks(each) for each in created(made, "Pod")
    }


def about_groups(made: Plan) -> list[Any]:
    """The writes of groups that nothing waits for; pods are never deleted for their sake."""
    everything = [*made.independent, *(write for stage in made.stages for write in stage)]
    assert not [w for w in everything if isinstance(w, Delete) and w.target.resource is PODS]
    return [write for write in made.independent if write.target.resource is not PODS]


def test_volcano_gets_kuberays_pod_group_and_marks():
    labels = {
        "volcano.sh/queue-name": "team-a",
        "ray.io/priority-class-name": "high",
        "volcano.sh/network-topology-mode": "hard",
        "volcano.sh/network-topology-highest-tier-allowed": "2",
    }
    kept, kind = stored(
        VOLCANO,
        spec(group("small", 3), slices(), group("idle", 4, suspend=True)),
        labels=labels,
        annotations={"note": "kept"},
    )
    made = plan(kept, kind)
    assert created(made, "PodGroup") == [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": "ray-example-pg",
                "namespace": "default",
                "ownerReferences": [OWNER],
                "annotations": {"note": "kept"},
            },
            "spec": {
                "minMember": 8,  # the head, 3, and 2 of 2 hosts
                "minResources": {"cpu": "10500m", "memory": "7680Mi", "nvidia.com/gpu": "4"},
                "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
                "queue": "team-a",
                "priorityClassName": "high",
            },
            "status": {"phase": "Pending"},
        }
    ]
    assert writes(made)[0] == "create PodGroup ray-example-pg"
    assert "Pod" not in {write.target.resource.kind for write in made.stages[0]}
    assert pods(made)["small"] == {
        "labels": {"volcano.sh/queue-name": "team-a"},
        "annotations": {
            "scheduling.k8s.io/group-name": "ray-example-pg",
            "volcano.sh/task-spec": "small",
        },
        "scheduler": "volcano",
        "group": None,
    }
    first = created(made, "Pod")[0]["metadata"]
    assert first["labels"]["ray.io/priority-class-name"] == "high"
    assert first["annotations"]["volcano.sh/task-spec"] == "headgroup"


def test_volcano_needs_room_for_the_least_that_an_autoscaler_keeps():
    wanted = spec(group("small", 3), slices(), enableInTreeAutoscaling=True)
    [body] = created(plan(*stored(VOLCANO, wanted)), "PodGroup")
    assert body["spec"]["minMember"] == 4
    assert body["spec"]["minResources"] == {
        "cpu": "5500m",
        "memory": "4608Mi",
        "nvidia.com/gpu": "2",
    }


def test_the_clusters_of_a_rayjob_have_its_volcano_group_and_copies_of_them_their_own():
    labels = {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "nightly"}
    of_job = msgspec.convert(
        OWNER | {"kind": "RayJob", "name": "nightly", "uid": "j"},
        type(head().metadata.owner_references[0]),
    )
    kept, kind = stored(VOLCANO, spec(), labels=labels, owner_references=(of_job,))
    made = plan(kept, kind)
    assert created(made, "PodGroup") == []
    name = "scheduling.k8s.io/group-name"
    assert pods(made)["headgroup"]["annotations"][name] == "ray-nightly-pg"
    made = plan(*stored(VOLCANO, spec(), labels=labels))
    assert [body["metadata"]["name"] for body in created(made, "PodGroup")] == ["ray-example-pg"]
    assert pods(made)["headgroup"]["annotations"][name] == "ray-example-pg"


def test_yunikorn_gets_kuberays_task_groups():
    labels = {"yunikorn.apache.org/app-id": "app-1", "yunikorn.apache.org/queue": "root.a", **GANG}
    wanted = spec(group("small", 3), slices(), group("idle", 4, suspend=True))
    made = plan(*stored(YUNIKORN, wanted, labels=labels))
    assert not {each.target.resource.kind for stage in made.stages for each in stage} - {"Pod"}
    small = pods(made)["small"]
    assert small["scheduler"] == "yunikorn"
    assert small["labels"] == {"applicationId": "app-1", "queue": "root.a"}
    assert small["annotations"].pop("yunikorn.apache.org/task-group-name") == "small"
    [text] = small["annotations"].values()
    assert json.loads(text) == [
        {"name": "headgroup", "minMember": 1, "minResource": {"cpu": "1", "memory": "2Gi"}},
        {"name": "small", "minMember": 1, "minResource": {"cpu": "500m", "memory": "512Mi"}},
        {
            "name": "gpus",
            "minMember": 2,
            "minResource": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"},
            "nodeSelector": {"a": "b"},
        },
        {"name": "idle", "minMember": 0, "minResource": {"cpu": "500m", "memory": "512Mi"}},
    ]


def test_yunikorn_without_the_gang_label_gets_a_queue_alone():
    labels = {"yunikorn.apache.org/queue": "root.a"}
    made = plan(*stored(YUNIKORN, spec(group("small", 1)), labels=labels))
    assert pods(made)["small"] == {
        "labels": {"queue": "root.a"},
        "annotations": {},
        "scheduler": "yunikorn",
        "group": None,
    }


def test_kai_gets_its_queue_and_makes_the_group_itself():
    labels = {"kai.scheduler/queue": "default", **GANG}
    made = plan(*stored(KAI, spec(group("small", 1)), labels=labels))
    assert created(made, "PodGroup") == []
    assert pods(made)["small"] == {
        "labels": {"kai.scheduler/queue": "default"},
        "annotations": {},
        "scheduler": "kai-scheduler",
        "group": None,
    }


def test_scheduler_plugins_get_a_group_that_stays_as_it_was_made():
    wanted = spec(group("small", 3))
    made = plan(*stored(PLUGINS, wanted, labels=GANG))
    [body] = created(made, "PodGroup")
    assert body["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert body["metadata"]["name"] == "example"
    assert body["spec"] == {"minMember": 4, "minResources": {"cpu": "2500m", "memory": "3584Mi"}}
    assert pods(made)["small"] == {
        "labels": {"scheduling.x-k8s.io/pod-group": "example"},
        "annotations": {},
        "scheduler": "scheduler-plugins-scheduler",
        "group": None,
    }
    kept = stored(PLUGINS, spec(group("small", 2)), existing(PLUGIN_POD_GROUPS, body), labels=GANG)
    assert not about_groups(plan(*kept))
    assert set(writes(plan(*kept))) == {w for w in writes(plan(*kept)) if "create Pod " in w}


def test_a_group_that_kuberay_made_for_scheduler_plugins_is_used():
    [theirs] = groups_of(PLUGINS, spec(group("small", 1)), labels=GANG)
    uncontrolled = msgspec.structs.replace(
        theirs.metadata.owner_references[0], controller=None, block_owner_deletion=None
    )
    theirs = with_meta(theirs, owner_references=(uncontrolled,))
    made = plan(*stored(PLUGINS, spec(group("small", 1)), theirs, labels=GANG))
    assert len(created(made, "Pod")) == 2


def test_kubernetes_own_scheduler_gets_a_workload_and_then_its_group():
    made = plan(*stored(WORKLOAD_API, spec(group("small", 3)), labels=GANG))
    policy = {"gang": {"minCount": 4}}
    assert created(made, "Workload") == [
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "Workload",
            "metadata": {
                "name": "example",
                "namespace": "default",
                "labels": {"ray.io/cluster": "example"},
                "ownerReferences": [OWNER],
            },
            "spec": {
                "controllerRef": {"apiGroup": "ray.io", "kind": "RayCluster", "name": "example"},
                "podGroupTemplates": [{"name": "cluster", "schedulingPolicy": policy}],
            },
        }
    ]
    assert created(made, "PodGroup") == [
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {
                "name": "example-cluster",
                "namespace": "default",
                "labels": {"ray.io/cluster": "example"},
                "ownerReferences": [OWNER],
            },
            "spec": {
                "podGroupTemplateRef": {
                    "workload": {"workloadName": "example", "podGroupTemplateName": "cluster"}
                },
                "schedulingPolicy": policy,
            },
        }
    ]
    order = [[each.target.resource.kind for each in stage] for stage in made.stages]
    assert order[:2] == [["Workload"], ["PodGroup"]]
    assert pods(made)["small"] == {
        "labels": {},
        "annotations": {},
        "scheduler": "default-scheduler",
        "group": {"podGroupName": "example-cluster"},
    }


@pytest.mark.parametrize(
    ("labels", "more"),
    [
        ({}, {}),
        ({"ray.io/gang-scheduling-enabled": "false"}, {}),
        (GANG, {"enableInTreeAutoscaling": True}),
    ],
)
def test_kubernetes_own_scheduler_leaves_other_clusters_alone(
    labels: dict[str, str], more: dict[str, Any]
):
    made = plan(*stored(WORKLOAD_API, spec(group("small", 1), **more), labels=labels))
    assert created(made, "Workload") == created(made, "PodGroup") == []
    assert pods(made)["small"]["scheduler"] is None
    assert pods(made)["small"]["group"] is None


def test_a_workload_of_another_size_is_replaced_before_the_next_pod_is_made():
    """Nothing of it can be changed: the PodGroup goes first, and what keeps it is taken off."""
    old = groups_of(WORKLOAD_API, spec(group("small", 1)), labels=GANG)
    workload, pod_group = old
    wanted, alive = spec(group("small", 3)), [head(), *workers(1, group="small")]
    held = ("scheduling.k8s.io/podgroup-protection",)

    def step(*groups: Any) -> Plan:
        return plan(*stored(WORKLOAD_API, wanted, *groups, *alive, labels=GANG))

    first = step(workload, with_meta(pod_group, finalizers=held))
    assert not first.stages
    [delete] = about_groups(first)
    assert isinstance(delete, Delete)
    assert delete.target.name == "example-cluster"

    dying = with_meta(pod_group, finalizers=held, deletion_timestamp="2026-08-20T10:00:00Z")
    second = step(workload, dying)
    assert not second.stages
    [patch] = about_groups(second)
    assert isinstance(patch, MergePatch)
    assert patch.patch == {"metadata": {"finalizers": []}}

    third = step(workload)
    assert not third.stages
    [delete] = about_groups(third)
    assert isinstance(delete, Delete)
    assert (delete.target.resource, delete.target.name) == (WORKLOADS, "example")

    last = step()
    assert not about_groups(last)
    assert writes(last)[:2] == ["create Workload example", "create PodGroup example-cluster"]
    [body] = created(last, "PodGroup")
    assert body["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
    assert len(created(last, "Pod")) == 2


def test_volcanos_group_has_its_new_size_before_new_pods_are_made():
    [old] = groups_of(VOLCANO, spec(group("small", 1)))
    kept = stored(VOLCANO, spec(group("small", 2)), old, head(), *workers(1, group="small"))
    [[resize], [more]] = plan(*kept).stages
    assert isinstance(resize, Replace)
    assert resize.merge == {"spec": {"minMember": 3, "minResources": {"cpu": "2", "memory": "3Gi"}}}
    assert isinstance(more, Create)


def test_the_same_amounts_in_other_words_are_no_change():
    [old] = groups_of(VOLCANO, spec(group("small", 1)))
    resources = {"cpu": "1500m", "memory": str((2048 + 512) << 20)}
    same = msgspec.structs.replace(
        old, spec=msgspec.structs.replace(old.spec, min_resources=resources)
    )
    kept = stored(VOLCANO, spec(group("small", 1)), same, head(), *workers(1, group="small"))
    assert not plan(*kept).stages


@pytest.mark.parametrize("scheduler", [VOLCANO, PLUGINS, WORKLOAD_API])
@pytest.mark.parametrize("alive", [False, True])
def test_where_the_api_of_groups_is_missing_no_pod_starts_and_the_status_says_so(
    scheduler: BatchScheduler, *, alive: bool
):
    pods = [head()] if alive else []
    wanted = spec(group("small", 2))
    made = plan(*stored(scheduler, wanted, *pods, labels=GANG, served=False))
    assert created(made, "Pod") == []
    assert made.requeue_after is not None
    assert made.status is not None
    ready = find_condition(made.status.wanted["conditions"], "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "SchedulingGroupMissing")
    assert f"batch scheduler {scheduler.name} needs" in ready["message"]
    assert scheduler.groups[0].group in ready["message"]


@pytest.mark.parametrize("scheduler", [KAI, YUNIKORN])
def test_schedulers_without_groups_need_no_api(scheduler: BatchScheduler):
    made = plan(*stored(scheduler, spec(group("small", 2)), labels=GANG, served=False))
    assert len(created(made, "Pod")) == 3


@pytest.mark.parametrize("scheduler", [VOLCANO, WORKLOAD_API])
def test_a_group_of_another_owner_keeps_the_pods_back(scheduler: BatchScheduler):
    wanted = spec(group("small", 1))
    *_, theirs = groups_of(scheduler, wanted, labels=GANG)
    theirs = with_meta(theirs, owner_references=())
    made = plan(*stored(scheduler, wanted, theirs, labels=GANG))
    assert created(made, "Pod") == []
    assert made.status is not None
    ready = find_condition(made.status.wanted["conditions"], "Ready") or {}
    assert ready["reason"] == "NameTaken"
    assert (
        f"PodGroup {theirs.metadata.name} exists and belongs to no controller" in ready["message"]
    )


@pytest.mark.parametrize("scheduler", [VOLCANO, PLUGINS, WORKLOAD_API])
def test_a_group_that_is_being_deleted_keeps_the_pods_back(scheduler: BatchScheduler):
    wanted = spec(group("small", 1))
    *others, last = groups_of(scheduler, wanted, labels=GANG)
    dying = with_meta(last, deletion_timestamp="2026-08-20T10:00:00Z")
    made = plan(*stored(scheduler, wanted, *others, dying, labels=GANG))
    assert not made.stages


@pytest.mark.parametrize("scheduler", [VOLCANO, PLUGINS, WORKLOAD_API])
def test_a_suspended_cluster_keeps_its_groups_and_gets_none(scheduler: BatchScheduler):
    wanted = spec(group("small", 1), suspend=True)
    assert not plan(*stored(scheduler, wanted, labels=GANG)).stages
    groups = groups_of(scheduler, spec(group("small", 1)), labels=GANG)
    made = plan(*stored(scheduler, wanted, *groups, labels=GANG))
    assert not made.stages
    assert not about_groups(made)


def test_a_tier_that_is_no_number_is_refused():
    labels = {
        "volcano.sh/network-topology-mode": "hard",
        "volcano.sh/network-topology-highest-tier-allowed": "two",
    }
    made = plan(*stored(VOLCANO, spec(), labels=labels))
    assert not made.stages
    [event] = made.events
    assert (
        "network-topology-highest-tier-allowed]: is 'two'; it must be a whole number" in event.note
    )


@pytest.mark.parametrize("scheduler", [None, *BATCH_SCHEDULERS.values(), WORKLOAD_API])
def test_labels_of_other_schedulers_are_named_as_without_effect(scheduler: BatchScheduler | None):
    labels = {"volcano.sh/queue-name": "a", "kai.scheduler/queue": "a", **GANG}
    kind = RayClusterKind(RaySettings(batch_scheduler=scheduler))
    kept = FakeReads(kind).add(RAYCLUSTERS, with_meta(cluster(), labels=labels))
    seen = kind.observe("default/example", kept)
    assert isinstance(seen, ClusterObservation)
    told = seen.desired.unsupported_fields
    ignored = {label for label in labels if f"metadata.labels[{label}]" in told}
    obeyed = scheduler.obeys if scheduler is not None else frozenset[str]()
    assert ignored == set(labels) - obeyed


def test_a_scheduler_that_is_chosen_later_changes_no_pod_that_runs():
    wanted = spec(group("small", 1))
    groups = groups_of(VOLCANO, wanted)
    unmarked = [head(), pod("example-small-worker-aaaaaaaa", "small")]
    made = plan(*stored(VOLCANO, wanted, *groups, *unmarked))
    assert not made.stages
    assert not about_groups(made)
