"""The status: counts, sticky states, conditions, the first cause, and when it is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.patches import apply_merge_patch, difference
from controller.kube.objects import Pod, Service
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS, RayCluster
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.children import Note
from controller.ray.cluster.observation import DesiredCluster
from controller.runtime.plan import Create, Delete, Failure, MergePatch, StatusPatch, Target
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import (
    NOW,
    cluster,
    head,
    manifest,
    owner,
    plan,
    pod,
    reads,
    with_children,
    with_meta,
    with_status,
    workers,
)

SERVICE = {
    "metadata": {
        "name": "example-head-svc",
        "namespace": "default",
        "labels": {"ray.io/node-type": "head"},
    },
    "spec": {
        "type": "ClusterIP",
        "clusterIP": "None",
        "ports": [
            {"name": "dashboard", "port": 8265, "targetPort": 8265},
            {"name": "metrics", "port": 8080, "targetPort": "http-metrics"},
            {"name": "client", "port": 10001, "targetPort": 10001, "nodePort": 30001},
            {"port": 1, "targetPort": 1},
        ],
    },
}


def service(**spec: Any) -> Service:
    raw = SERVICE | {"spec": SERVICE["spec"] | spec}
    return with_meta(msgspec.convert(raw, Service), owner_references=(owner(),))


def kept(obj: RayCluster, *pods: Any, **more: Any) -> FakeReads:
    return reads(obj, *pods, **more).add(SERVICES, service())


def patch_of(reads_: FakeReads, *failures: Failure, seconds: float = 0) -> StatusPatch:
    if not failures:
        made = plan(reads_, seconds=seconds).status
    else:
        kind = RayClusterKind()
        seen = kind.observe("default/example", reads_)
        assert seen is not None
        made = kind.status_after(seen, kind.plan(seen, NOW), failures, NOW)
    assert made is not None
    return made


def status_of(reads_: FakeReads, *failures: Failure) -> dict[str, Any]:
    """The status as it is stored after the patch."""
    stored = reads_.get(RAYCLUSTERS, "default/example").status
    return apply_merge_patch(stored, patch_of(reads_, *failures).wanted)


def said(status: dict[str, Any], kind: str) -> tuple[str, str, str] | None:
    found = find_condition(status["conditions"], kind)
    return found and (found["status"], found["reason"], found["message"])


def cause(*pods: Any, obj: RayCluster | None = None, **more: Any) -> tuple[str, str]:
    condition = said(status_of(kept(obj or cluster(), *pods, **more)), "Ready")
    assert condition is not None
    return condition[1:]


READY = (head(), *workers(2))


def test_a_ready_cluster():
    status = status_of(kept(cluster(), *READY))
    assert status["state"] == "ready"
    assert status["stateTransitionTimes"] == {"ready": "2026-08-20T10:00:00Z"}
    assert status["observedGeneration"] == 1
    assert "lastUpdateTime" not in status, "a time is no reason to write"
    counters = {k: v for k, v in status.items() if k.endswith("Replicas")}
    assert counters == {
        "desiredWorkerReplicas": 2,
        "availableWorkerReplicas": 2,
        "readyWorkerReplicas": 2,
        "maxWorkerReplicas": 10,
    }, "a zero minWorkerReplicas is left out"
    assert (status["desiredCPU"], status["desiredMemory"]) == ("3", "4Gi")
    assert (status["desiredGPU"], status["desiredTPU"]) == ("0", "0")
    assert status["head"] == {
        "podName": "example-head-aaaaaaaa",
        "podIP": "10.0.0.7",
        "serviceName": "example-head-svc",
        "serviceIP": "10.0.0.7",
    }
    assert status["endpoints"] == {
        "dashboard": "8265",
        "metrics": "http-metrics",
        "client": "30001",
    }
    assert said(status, "Ready") == ("True", "AllPodsReady", "the head and all workers are ready")
    assert said(status, "HeadPodReady") == ("True", "HeadPodRunningAndReady", "")
    provisioned = said(status, "RayClusterProvisioned")
    assert provisioned is not None
    assert provisioned[:2] == ("True", "AllPodRunningAndReadyFirstTime")
    assert [c["type"] for c in status["conditions"]] == [
        "HeadPodReady",
        "RayClusterSuspended",
        "RayClusterSuspending",
        "RayClusterProvisioned",
        "Ready",
    ]


def test_a_new_cluster_has_an_empty_head_and_no_state():
    status = status_of(reads(cluster()))
    assert status["head"] == {}
    assert "state" not in status
    assert "endpoints" not in status
    assert said(status, "HeadPodReady") == ("False", "HeadPodNotFound", "Head Pod not found")


def test_a_service_with_an_address_gives_its_own():
    reads_ = reads(cluster(), *READY).add(SERVICES, service(clusterIP="10.1.1.1"))
    assert status_of(reads_)["head"]["serviceIP"] == "10.1.1.1"


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ({"replicas": 3}, (3, None, 10)),
        ({"replicas": 30}, (10, None, 10)),
        ({"replicas": 1, "minReplicas": 2, "numOfHosts": 2}, (4, 4, 20)),
        ({"replicas": 3, "suspend": True}, (None, None, None)),
        ({"replicas": 1, "maxReplicas": 2147483647, "numOfHosts": 4}, (4, None, 2147483647)),
    ],
)
def test_counts_are_pods_clamped_and_saturated(group: dict[str, Any], expected: tuple[Any, ...]):
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0] |= group
    status = status_of(kept(cluster(raw)))
    names = ("desiredWorkerReplicas", "minWorkerReplicas", "maxWorkerReplicas")
    assert tuple(status.get(name) for name in names) == expected


def test_resources_are_those_of_the_wanted_pods_requests_then_limits():
    raw = manifest()
    spec = raw["spec"]["workerGroupSpecs"][0]
    spec |= {"replicas": 30, "numOfHosts": 2}
    spec["template"]["spec"]["containers"] = [
        {
            "name": "a",
            "resources": {"limits": {"cpu": "4", "nvidia.com/gpu": 1}, "requests": {"cpu": "500m"}},
        },
        {
            "name": "b",
            "resources": {"limits": {"memory": "1G", "amd.com/gpu": 2, "google.com/tpu": "4"}},
        },
    ]
    status = status_of(kept(cluster(raw)))
    assert status["desiredCPU"] == "11", "1 + 20 x 500m: maxReplicas is 10"
    assert status["desiredMemory"] == "21628402Ki", "2Gi + 20 x 1G"
    assert status["desiredGPU"] == "60"
    assert status["desiredTPU"] == "80"
    spec["replicas"] = -1
    assert status_of(kept(cluster(raw)))["desiredCPU"] == "1"
    spec |= {"replicas": None, "minReplicas": 2}
    assert status_of(kept(cluster(raw)))["desiredCPU"] == "3"
    spec["suspend"] = True
    assert status_of(kept(cluster(raw)))["desiredCPU"] == "1"


@pytest.mark.parametrize(
    "pods",
    [
        (head(), *workers(1)),
        (head(), *workers(3)),
        (head(), *workers(1), pod("p", ready=False)),
        (head(), *workers(2), pod("orphan", "removed")),
        workers(3),
    ],
)
def test_the_state_becomes_ready_with_exactly_the_wanted_pods(pods: tuple[Any, ...]):
    assert "state" not in status_of(kept(cluster(), *pods))


def test_a_cluster_of_multi_host_groups_becomes_ready_with_all_of_their_hosts():
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0] |= {"replicas": 2, "numOfHosts": 4}
    pods = (head(), *workers(8))
    status = status_of(with_children(kept(cluster(raw), *pods)))
    assert status["state"] == "ready"
    assert status["desiredWorkerReplicas"] == status["readyWorkerReplicas"] == 8
    ready = said(status, "Ready")
    assert ready is not None
    assert ready[0] == "True"
    fewer = status_of(with_children(kept(cluster(raw), *pods[:-1])))
    assert "state" not in fewer
    assert said(fewer, "Ready") == ("False", "PodsMissing", "group workers: 7 of 8 pods exist")


def test_a_group_that_is_suspended_needs_no_pods():
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0] |= {"suspend": True}
    status = status_of(kept(cluster(raw), head()))
    assert status["state"] == "ready"
    assert "desiredWorkerReplicas" not in status


def test_ready_is_kept_for_ever_but_the_condition_ready_is_about_now():
    ready = with_status(cluster(), status_of(kept(cluster(), *READY)))
    status = status_of(kept(ready, head(), pod("p", ready=False)))
    assert status["state"] == "ready"
    assert status["stateTransitionTimes"] == ready.status["stateTransitionTimes"]
    provisioned = said(status, "RayClusterProvisioned")
    assert provisioned is not None
    assert provisioned[0] == "True"
    now = said(status, "Ready")
    assert now is not None
    assert now[0] == "False"


def test_provisioned_asks_only_the_pods_that_exist():
    status = status_of(kept(cluster(), head()))
    provisioned = said(status, "RayClusterProvisioned")
    assert provisioned is not None
    assert provisioned[0] == "True"
    assert status_of(kept(cluster())).get("state") is None


def creation(name: str, scope: str = "worker/workers", resource: Any = PODS) -> Create:
    return Create(Target(resource, "default", name, scope), {})


QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5'


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (creation("w"), "FailedCreateWorkerPod"),
        (creation("h", "head"), "FailedCreateHeadPod"),
        (Delete(Target(PODS, "default", "w", "worker/workers"), "u"), "FailedDeleteWorkerPod"),
        (Delete(Target(PODS, "default", "h", "head"), "u"), "FailedDeleteHeadPod"),
    ],
)
def test_a_pod_that_cannot_be_made_or_deleted_is_a_replica_failure(write: Any, reason: str):
    status = status_of(kept(cluster(), head()), Failure(write, "Forbidden", QUOTA))
    failed = said(status, "ReplicaFailure")
    assert failed is not None
    assert failed[:2] == ("True", reason)
    assert QUOTA in failed[2]
    ready = said(status, "Ready")
    assert ready is not None
    assert ready[:2] == ("False", "QuotaExceeded")
    cured = status_of(kept(with_status(cluster(), status), *READY))
    assert said(cured, "ReplicaFailure") is None


def test_a_pod_that_cannot_be_changed_is_no_replica_failure_as_kuberay_has_no_reason_for_it():
    change = MergePatch(Target(PODS, "default", "h", "head"), "u", {})
    status = status_of(kept(cluster(), head()), Failure(change, "Forbidden", "no"))
    assert said(status, "ReplicaFailure") is None
    ready = said(status, "Ready")
    assert ready is not None
    assert ready[:2] == ("False", "AdmissionDenied")


def test_other_failures_leave_replica_failure_as_it_was():
    failed = status_of(kept(cluster(), head()), Failure(creation("w"), "Forbidden", QUOTA))
    obj = with_status(cluster(), failed)
    service_failed = Failure(creation("s", "service/head", SERVICES), "Forbidden", "no services")
    status = status_of(kept(obj, head()), service_failed)
    assert said(status, "ReplicaFailure") == said(failed, "ReplicaFailure")
    assert said(status, "Ready") == (
        "False",
        "AdmissionDenied",
        (
            "Service s: cannot be created: no services; change the template accordingly, or ask "
            "for another policy"
        ),
    )


@pytest.mark.parametrize(
    ("ready", "expected"),
    [
        (
            {"status": "False", "reason": "PodCompleted", "message": "m"},
            ("False", "PodCompleted", "m"),
        ),
        ({"status": "Unknown", "reason": "NodeLost", "message": "m"}, ("Unknown", "NodeLost", "m")),
        ({"status": "False"}, ("False", "Unknown", "")),
    ],
)
def test_the_heads_own_words_are_passed_on(ready: dict[str, str], expected: tuple[str, ...]):
    raw = msgspec.to_builtins(head())
    raw["status"]["conditions"] = [{"type": "Ready", **ready}]
    status = status_of(kept(cluster(), msgspec.convert(raw, type(head()))))
    assert said(status, "HeadPodReady") == expected


def test_containers_not_ready_is_explained_by_the_first_container_that_is_not():
    raw = msgspec.to_builtins(head())
    raw["status"]["conditions"] = [
        {
            "type": "Ready",
            "status": "False",
            "reason": "ContainersNotReady",
            "message": "not ready: [a b]",
        }
    ]
    raw["status"]["containerStatuses"] = [
        {"name": "ok", "state": {}},
        {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "pulling"}}},
        {"name": "b", "state": {"terminated": {"reason": "Error"}}},
    ]
    status = status_of(kept(cluster(), msgspec.convert(raw, type(head()))))
    assert said(status, "HeadPodReady") == (
        "False",
        "ImagePullBackOff",
        "not ready: [a b]; a: pulling",
    )


def test_the_heads_condition_says_how_its_container_last_ended():
    raw = msgspec.to_builtins(head())
    raw["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    ]
    back_off = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}
    raw["status"]["containerStatuses"] = [
        {
            "name": "ray-head",
            "state": {"waiting": back_off},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        }
    ]
    status = status_of(kept(cluster(), msgspec.convert(raw, type(head()))))
    assert said(status, "HeadPodReady") == (
        "False",
        "CrashLoopBackOff",
        "ray-head: back-off 10s restarting; it last ended with exit code 137 (OOMKilled)",
    )
    ready = said(status, "Ready")
    assert ready is not None
    assert ready[1] == "OOMKilled"


def test_a_lost_head_is_removed_from_the_status_and_endpoints_stay():
    ready = with_status(cluster(), status_of(kept(cluster(), *READY)))
    gone = status_of(kept(ready, *workers(2), absent={"default/example-head-aaaaaaaa"}))
    assert gone["head"] == {"serviceName": "example-head-svc"}
    no_service = status_of(reads(ready, *READY))
    assert no_service["endpoints"] == ready.status["endpoints"]


def test_unsupported_fields_are_named_as_long_as_they_are_asked_for():
    raw = manifest()
    raw["metadata"]["labels"] = {"volcano.sh/queue-name": "q", "team": "a"}
    obj = cluster(
        raw, gcsFaultToleranceOptions={"redisAddress": "r"}, authOptions={"mode": "token"}
    )
    status = status_of(with_children(kept(obj, *READY)))
    features = said(status, "FeaturesSupported")
    assert features is not None
    assert features[:2] == ("False", "NotImplementedYet")
    assert "metadata.labels[volcano.sh/queue-name]" in features[2]
    assert status["state"] == "ready", "a field without effect does not stop the cluster"
    relieved = with_status(cluster(), status)
    assert said(status_of(kept(relieved, *READY)), "FeaturesSupported") is None


def test_a_change_that_reaches_new_pods_only_is_said():
    made = plan(reads(cluster()))
    bodies = [dict(w.body) for stage in made.stages for w in stage if w.target.resource is PODS]
    stamps = [body["metadata"]["annotations"] for body in bodies]
    pods = [head(annotations=stamps[0]), *workers(2, annotations=stamps[1])]
    assert said(status_of(kept(cluster(), *pods)), "PodsUpToDate") is None
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] = "new"
    outdated = said(status_of(kept(cluster(raw), *pods)), "PodsUpToDate")
    assert outdated is not None
    assert outdated[:2] == ("False", "UpgradeStrategyNone")
    assert outdated[2].startswith(
        "2 pods were created from an older template, first example-workers"
    )
    one = said(status_of(kept(cluster(raw), *pods[:2])), "PodsUpToDate")
    assert one is not None
    assert one[2].startswith(f"pod {pods[1].metadata.name} was created from an older template; ")
    assert said(status_of(kept(cluster(raw), *READY)), "PodsUpToDate") is None, "made by KubeRay"


CHANGED_OPTIONS: list[tuple[dict[str, Any], int, str]] = [
    ({"authOptions": {"mode": "token"}}, 3, "authOptions"),
    ({"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}, 3, "gcsFaultToleranceOptions"),
    ({"enableInTreeAutoscaling": True}, 1, "autoscalerOptions and enableInTreeAutoscaling"),
]


@pytest.mark.parametrize(("options", "count", "fields"), CHANGED_OPTIONS)
def test_an_option_of_the_cluster_that_running_pods_were_made_without_is_named(
    options: dict[str, Any], count: int, fields: str
):
    pods = made_pods(manifest())
    assert said(status_of(kept(cluster(), *pods)), "OptionsInEffect") is None
    edited = manifest()
    edited["spec"] |= options
    told = said(status_of(kept(cluster(edited), *pods)), "OptionsInEffect")
    assert told is not None
    assert told[:2] == ("False", "FormerOptions")
    who = f"{count} pods were" if count > 1 else f"pod {pods[0].metadata.name} was"
    assert told[2].startswith(f"{who} made before {fields} changed")
    back = with_status(cluster(), {"conditions": [{"type": "OptionsInEffect", "status": "False"}]})
    assert said(status_of(kept(back, *pods)), "OptionsInEffect") is None
    anew = made_pods(edited)
    assert said(status_of(kept(cluster(edited), *anew)), "OptionsInEffect") is None
    assert said(status_of(kept(cluster(edited), *READY)), "OptionsInEffect") is None, "KubeRay's"


def test_an_option_written_in_another_order_is_no_other_option():
    raw = manifest()
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    raw["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"env": env}}
    pods = made_pods(raw)
    raw["spec"]["autoscalerOptions"] = {"env": env[::-1]}
    assert said(status_of(kept(cluster(raw), *pods)), "OptionsInEffect") is None


def test_what_the_autoscaler_reads_from_the_cluster_itself_is_in_effect():
    raw = manifest()
    raw["spec"] |= {"enableInTreeAutoscaling": True}
    pods = made_pods(raw)
    raw["spec"]["autoscalerOptions"] = {"idleTimeoutSeconds": 5, "upscalingMode": "Aggressive"}
    assert said(status_of(kept(cluster(raw), *pods)), "OptionsInEffect") is None
    raw["spec"]["autoscalerOptions"]["image"] = "another"
    told = said(status_of(kept(cluster(raw), *pods)), "OptionsInEffect")
    assert told is not None
    assert "made before autoscalerOptions changed" in told[2]


def made_pods(raw: dict[str, Any]) -> list[Pod]:
    """The head and two workers as they are made for a manifest."""
    desired = RayClusterKind()._desired(cluster(raw))
    assert isinstance(desired, DesiredCluster)
    (group,) = desired.spec.worker_group_specs
    bodies = desired.builder.head("h"), desired.builder.workers(group)("w", None)
    stamps = [body["metadata"]["annotations"] for body in bodies]
    return [head(annotations=stamps[0]), *workers(2, annotations=stamps[1])]


def test_suspension_has_a_state_and_says_how_to_resume():
    obj = cluster(suspend=True)
    first = status_of(kept(obj, *READY))
    assert said(first, "RayClusterSuspending") == ("True", "RayClusterSuspending", "")
    second = status_of(kept(with_status(obj, first), listed=True))
    assert second["state"] == "suspended"
    assert said(second, "RayClusterSuspended") == ("True", "RayClusterSuspended", "")
    assert said(second, "RayClusterProvisioned") == (
        "False",
        "RayClusterPodsProvisioning",
        "RayCluster has been suspended",
    )
    forgotten = with_status(cluster(), second)
    ready = said(status_of(kept(forgotten)), "Ready")
    assert ready is not None
    assert "set spec.suspend to false" in ready[2]


def test_a_cluster_whose_suspension_was_forgotten_half_way_has_the_state_all_the_same():
    first = status_of(kept(cluster(suspend=True), *READY))
    done = status_of(kept(with_status(cluster(), first), listed=True))
    assert said(done, "RayClusterSuspended") == ("True", "RayClusterSuspended", "")
    assert status_of(kept(with_status(cluster(), done)))["state"] == "suspended"
    resumed = status_of(kept(with_status(cluster(suspend=False), done)))
    assert resumed.get("state") != "suspended"


def test_nothing_is_written_when_nothing_changed():
    for pods in ((), (head(),), READY):
        reads_ = kept(cluster(), *pods)
        first = patch_of(reads_)
        stored = apply_merge_patch({}, first.wanted)
        again = patch_of(kept(with_status(cluster(), stored), *pods), seconds=60)
        assert difference(stored, again.wanted) == {}, pods


def test_zeros_that_another_operator_wrote_cost_no_write():
    stored = apply_merge_patch({}, patch_of(kept(cluster(), *READY)).wanted)
    stored |= {"minWorkerReplicas": 0, "reason": ""}
    again = patch_of(kept(with_status(cluster(), stored), *READY), seconds=60)
    assert difference(stored, again.wanted) == {}


def test_two_heads_and_no_head_service_do_not_keep_the_status_from_being_written():
    heads = (head(), head("example-head-bbbbbbbb", ready=False))
    obj = with_meta(cluster(), generation=7)
    failure = Failure(creation("w"), "Forbidden", QUOTA)
    status = status_of(reads(obj, *heads, *workers(1)), failure)
    assert status["observedGeneration"] == 7
    assert status["head"]["podName"] == "example-head-aaaaaaaa"
    failed = said(status, "ReplicaFailure")
    assert failed is not None
    assert failed[:2] == ("True", "FailedCreateWorkerPod")


STARTING = (head(phase="Pending"), *workers(2, phase="Pending"))


def test_a_status_that_others_wait_for_never_settles():
    job = msgspec.structs.replace(owner(), kind="RayJob", name="job", uid="uid-of-job")
    owned = with_meta(cluster(), owner_references=(job,))
    assert patch_of(kept(owned)).settles == 0.0, "another object waits for it"
    once_ready = with_status(cluster(), status_of(kept(cluster(), *READY)))
    assert patch_of(kept(once_ready, *STARTING)).settles == 0.0, "it was up before"
    begun = with_status(cluster(), status_of(kept(cluster(), *STARTING)))
    edited = with_meta(begun, generation=2)
    assert patch_of(kept(edited, *STARTING)).settles == 0.0, "an edit is to be acknowledged"
    suspended = cluster(suspend=True)
    assert patch_of(kept(suspended, *STARTING)).settles == 0.0, "its pods go once it is stored"


def test_trouble_never_settles():
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pending = pod("a", phase="Pending", node="", conditions=[unscheduled])
    assert patch_of(kept(cluster(), head(), pending)).settles == 0.0
    refused = Failure(creation("a"), "Forbidden", "no")
    assert patch_of(kept(cluster(), head()), refused).settles == 0.0
    kind = RayClusterKind()
    seen = kind.observe("default/example", kept(cluster(), *STARTING))
    assert seen is not None
    noted = replace(seen, children=replace(seen.children, notes=(Note("Odd", "it is odd"),)))
    for odd in (noted, replace(seen, unknown_fields="spec.x is unknown")):
        status = kind.plan(odd, NOW).status
        assert status is not None
        assert status.settles == 0.0
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0]["template"]["spec"]["restartPolicy"] = "Always"
    raw["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v1"}}
    warned = plan(kept(cluster(raw), *STARTING))
    assert warned.events, "told until the status says that it was observed"
    assert warned.status is not None
    assert warned.status.settles == 0.0


def test_a_new_generation_is_acknowledged_at_once():
    stored = apply_merge_patch({}, patch_of(kept(cluster(), *READY)).wanted)
    edited = with_meta(with_status(cluster(), stored), generation=2)
    patch = patch_of(kept(edited, *READY))
    assert patch.urgent
    assert patch.wanted["observedGeneration"] == 2


def test_workers_that_only_the_autoscaler_may_delete_are_explained():
    obj = cluster(enableInTreeAutoscaling=True)
    ready = said(status_of(with_children(kept(obj, head(), *workers(4)))), "Ready")
    assert ready is not None
    assert ready[0] == "True"
    assert ready[2] == (
        "the head and all workers are ready; group workers has 4 of 2 pods, because only the "
        "autoscaler decides which workers may go"
    )
    ready = said(status_of(with_children(kept(obj, head(), *workers(2)))), "Ready")
    assert ready is not None
    assert ready[2] == "the head and all workers are ready"
