"""What is done about a RayCluster, situation by situation."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import find_condition, is_true, rfc3339
from controller.kube.objects import KubeObject, Service
from controller.kube.resources import PODS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SERVICES
from controller.ray.api import RayCluster
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.plan import BLOCKED_RETRY
from controller.ray.settings import RaySettings
from controller.runtime.plan import NOTHING, Create, Delete, LiveList, Plan
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import (
    NOW,
    UID,
    cluster,
    head,
    manifest,
    meta,
    owner,
    plan,
    pod,
    reads,
    unreadable,
    with_meta,
    with_status,
    workers,
    writes,
)
from tests.ray.cluster.upgrade.rolling.scenes import draining

SERVICE = Service(
    metadata=meta(
        "example-head-svc",
        owner_references=(owner(),),
        labels={"ray.io/node-type": "head", "ray.io/cluster": "example"},
    )
)


def settled(obj: RayCluster, *pods: Any, **more: Any) -> FakeReads:
    """Reads of a cluster whose services exist."""
    return reads(obj, *pods, **more).add(SERVICES, SERVICE)


def scaled(replicas: int, *named: str, **spec: Any) -> RayCluster:
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0] |= {
        "replicas": replicas,
        "scaleStrategy": {"workersToDelete": list(named)},
    }
    return cluster(raw, **spec)


def verbs(made: Plan, verb: type, scope: str = "") -> list[str]:
    return [
        write.target.name
        for stage in made.stages
        for write in stage
        if isinstance(write, verb) and write.target.scope.startswith(scope)
    ]


def events(made: Plan) -> list[str]:
    on_success = [w.on_success for stage in made.stages for w in stage if w.on_success]
    return [event.reason for event in (*on_success, *made.events)]


def test_a_new_cluster_gets_a_service_then_a_head_then_workers():
    made = plan(reads(cluster()))
    kinds = [[(type(w).__name__, w.target.scope) for w in stage] for stage in made.stages]
    assert kinds == [
        [("Create", "Service example-head-svc")],
        [("Create", "head")],
        [("Create", "worker/workers"), ("Create", "worker/workers")],
    ]
    assert events(made) == [
        "CreatedService",
        "CreatedHeadPod",
        "CreatedWorkerPod",
        "CreatedWorkerPod",
    ]


def test_a_plan_is_a_pure_function_of_the_observation():
    kind = RayClusterKind()
    obj = scaled(5, enableInTreeAutoscaling=True)
    before = copy.deepcopy(msgspec.to_builtins(obj))
    seen = kind.observe("default/example", reads(obj, *workers(2)))
    assert seen is not None
    assert kind.plan(seen, NOW) == kind.plan(seen, NOW)
    again = RayClusterKind().observe(
        "default/example", reads(scaled(5, enableInTreeAutoscaling=True), *workers(2))
    )
    assert again is not None
    assert RayClusterKind().plan(again, NOW) == kind.plan(seen, NOW)
    assert msgspec.to_builtins(obj) == before


def test_the_same_state_gives_the_same_names_and_a_later_one_gives_others():
    first, second = plan(reads(cluster())), plan(reads(cluster()))
    assert writes(first) == writes(second)
    later = plan(reads(cluster(), newest="101"))
    pods = {name for name in writes(first) if "Pod" in name}
    assert pods.isdisjoint(writes(later))
    namesake = plan(reads(with_meta(cluster(), uid="another")))
    assert pods.isdisjoint(writes(namesake))


def test_names_have_kuberays_form_and_fit():
    raw = manifest()
    raw["metadata"]["name"] = "c" * 53
    raw["spec"]["workerGroupSpecs"][0]["groupName"] = "Large-Group"
    kind = RayClusterKind()
    kept = reads(cluster(raw))
    seen = kind.observe(f"default/{'c' * 53}", kept)
    assert seen is not None
    names = verbs(kind.plan(seen, NOW), Create, "worker") + verbs(
        kind.plan(seen, NOW), Create, "head"
    )
    assert all(len(name) <= 63 and name == name.lower() for name in names)
    made = plan(reads(cluster()))
    assert verbs(made, Create, "head")[0].startswith("example-head-")
    assert all(n.startswith("example-workers-worker-") for n in verbs(made, Create, "worker"))


def test_a_pod_that_is_going_holds_its_place_until_it_is_gone():
    going = pod("going", terminating=True)
    assert plan(settled(scaled(2), head(), *workers(1), going)).stages == ()
    assert plan(settled(scaled(1), head(), *workers(1), going)).stages == ()


def test_names_of_pods_of_others_in_workers_to_delete_are_ignored():
    foreign = pod("foreign", owner_uid="somebody")
    other_group = pod("other", "second")
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0] |= {
        "replicas": 2,
        "scaleStrategy": {"workersToDelete": ["foreign", "other", "example-head-aaaaaaaa"]},
    }
    second = copy.deepcopy(raw["spec"]["workerGroupSpecs"][0])
    raw["spec"]["workerGroupSpecs"].append(
        second | {"groupName": "second", "replicas": 1, "scaleStrategy": {}}
    )
    kept = settled(cluster(raw), head(), *workers(2), foreign, other_group)
    assert plan(kept).stages == ()


def test_workers_of_a_removed_group_are_deleted_with_an_event():
    made = plan(settled(cluster(), head(), *workers(2), pod("orphan", "removed")))
    (delete,) = made.stages[0]
    assert delete.target.name == "orphan"
    assert delete.on_success is not None
    assert delete.on_success.reason == "DeletedWorkerPod"
    assert "'removed' is no longer in the specification" in delete.on_success.note


@pytest.mark.parametrize(
    "labels",
    [{"ray.io/group": "removed"}, {"ray.io/group": "headgroup"}, {"ray.io/node-type": "head"}],
)
def test_a_worker_whose_label_a_user_has_changed_keeps_its_place(labels: dict[str, str]):
    first = pod("example-workers-worker-00000000", labels=labels, created="2026-08-01T09:00:00Z")
    made = plan(settled(cluster(), head(), first, workers(2)[1]))
    assert made.stages == ()
    [event] = made.events
    assert event.reason == "PodRelabelled"
    assert "kubectl label pod -n default example-workers-worker-00000000" in event.note
    assert "ray.io/group=workers ray.io/node-type=worker" in event.note


def test_a_pod_of_no_group_is_nobodys_to_delete():
    nameless = pod("nameless", labels={"ray.io/group": ""})
    assert plan(settled(cluster(), head(), *workers(2), nameless)).stages == ()


@pytest.mark.parametrize("scope", ["head", "worker/workers", "Service example-head-svc"])
def test_in_a_pending_scope_nothing_is_created_or_deleted(scope: str):
    fresh = plan(reads(cluster(), pending=frozenset({scope})))
    created = {w.target.scope for stage in fresh.stages for w in stage}
    every = ["Service example-head-svc", "head", "worker/workers"]
    assert created == set(every[: every.index(scope)]), "nothing that depends on it, either"
    pods = [head(phase="Failed"), *workers(3)]
    busy = plan(settled(cluster(), *pods, pending=frozenset({scope})))
    assert not any(w.target.scope == scope for stage in busy.stages for w in stage)
    gone = plan(
        settled(cluster(), head(), *workers(2), pod("o", "old"), pending=frozenset({"worker/old"}))
    )
    assert gone.stages == ()


def test_an_unhealthy_head_is_deleted_and_the_workers_are_looked_after_all_the_same():
    made = plan(settled(scaled(2), head(phase="Failed"), *workers(1)))
    assert verbs(made, Delete) == ["example-head-aaaaaaaa"]
    assert len(verbs(made, Create, "worker")) == 1
    assert verbs(made, Create, "head") == []


@pytest.mark.parametrize(
    "present",
    [
        head(terminating=True),
        head("foreign", owner_uid="uid-of-the-previous-example", terminating=True),
        head("foreign", owner_uid="uid-of-the-previous-example"),
        head("foreign", owner_uid=None),
    ],
)
def test_a_head_that_is_going_or_belongs_to_somebody_else_delays_ours(present: Any):
    made = plan(settled(cluster(), present, *workers(2)))
    assert made.stages == ()


def test_a_head_that_only_the_status_knows_is_looked_up_before_another_is_made():
    obj = with_status(cluster(), {"head": {"podName": "example-head-x"}})
    made = plan(settled(obj))
    assert [(str(look.target.resource), look.target.key) for look in made.lookups] == [
        ("pods", "default/example-head-x")
    ]
    assert made.stages == ()
    assert made.status is None
    known_gone = plan(settled(obj, absent={"default/example-head-x"}))
    assert known_gone.lookups == ()
    assert len(verbs(known_gone, Create, "head")) == 1
    assert plan(settled(obj, head("example-head-x"), *workers(2))).lookups == ()


def test_of_two_heads_the_one_in_use_stays():
    older = head("b-older", created="2026-08-20T08:00:00Z")
    newer = head("a-newer", created="2026-08-20T09:00:00Z")
    waiting = head("0-waiting", ready=False, created="2026-08-20T07:00:00Z")
    made = plan(settled(cluster(), newer, waiting, older, *workers(2)))
    assert sorted(verbs(made, Delete)) == ["0-waiting", "a-newer"]


def test_a_provisioned_cluster_whose_driver_lived_in_the_head_gets_no_new_head():
    raw = manifest()
    raw["metadata"]["annotations"] = {"ray.io/disable-provisioned-head-restart": "true"}
    provisioned = {"conditions": [{"type": "RayClusterProvisioned", "status": "True"}]}
    assert plan(settled(with_status(cluster(raw), provisioned))).stages == ()
    assert plan(settled(cluster(raw))).stages != ()
    assert plan(settled(with_status(cluster(), provisioned))).stages != ()


def test_a_cluster_of_another_controller_is_not_touched_even_if_it_is_not_valid():
    assert plan(reads(cluster(managedBy="kueue.x-k8s.io/multikueue"))) is NOTHING
    assert plan(reads(cluster(managedBy="kueue.x-k8s.io/multikueue", headGroupSpec=1))) is NOTHING


@pytest.mark.parametrize("mode", ["token", "x" * 5000])
def test_an_invalid_cluster_is_reported_once_and_not_touched(mode: str):
    invalid = cluster(authOptions={"mode": mode}, rayVersion="2.0.0")
    made = plan(reads(invalid, head(phase="Failed"), *workers(5)))
    assert made.stages == ()
    assert [e.reason for e in made.events] == ["InvalidRayClusterSpec"]
    assert made.status is not None
    (ready,) = made.status.wanted["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == (
        "Ready",
        "False",
        "InvalidRayClusterSpec",
    )
    assert ready["message"].startswith("spec.authOptions.mode: ")
    told = with_status(invalid, dict(made.status.wanted))
    again = plan(reads(told))
    assert again.events == ()
    assert again.status is not None
    assert again.status.wanted["conditions"] == told.status["conditions"]
    edited = with_meta(told, generation=2)
    assert len(plan(reads(edited)).events) == 1


def of_condition(type_: str, status: str) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": type_, "message": ""}


def test_what_the_pods_of_a_cluster_say_is_reported_under_a_refused_edit():
    invalid = cluster(authOptions={"mode": "token"}, rayVersion="2.0.0")
    stored = with_status(
        invalid, {"readyWorkerReplicas": 7, "conditions": [of_condition("HeadPodReady", "True")]}
    )
    made = plan(reads(stored, *workers(2)))
    assert made.stages == ()
    assert made.status is not None
    assert made.status.wanted["readyWorkerReplicas"] == 2
    lost = find_condition(made.status.wanted["conditions"], "HeadPodReady")
    assert lost is not None
    assert (lost["status"], lost["reason"]) == ("False", "HeadPodNotFound")


def test_a_suspension_that_has_begun_is_completed_under_a_refused_edit():
    invalid = cluster(authOptions={"mode": "token"}, rayVersion="2.0.0")
    stored = with_status(invalid, {"conditions": [of_condition("RayClusterSuspending", "True")]})
    made = plan(reads(stored, head(), *workers(2)))
    assert len(writes(made)) == 3
    assert all(write.startswith("delete Pod ") for write in writes(made))
    assert plan(reads(stored)).lookups, "a live list confirms that no pod is left"
    last = plan(reads(stored, listed=True)).status
    assert last is not None
    assert last.wanted["state"] == "suspended"
    assert is_true(last.wanted["conditions"], "RayClusterSuspended")


def test_a_suspension_does_not_wait_for_the_correction_of_another_field():
    invalid = cluster(authOptions={"mode": "token"}, rayVersion="2.0.0", suspend=True)
    made = plan(reads(invalid, head(), *workers(2)))
    assert made.status is not None
    assert writes(made) == []
    assert is_true(made.status.wanted["conditions"], "RayClusterSuspending")
    stored = with_status(invalid, {"conditions": made.status.wanted["conditions"]})
    assert len(writes(plan(reads(stored, head(), *workers(2))))) == 3


@pytest.mark.parametrize("suspend", ["yes", False, None])
def test_no_pod_goes_for_a_suspension_that_is_not_asked_for_in_valid_words(suspend: object):
    invalid = cluster(authOptions={"mode": "token"}, rayVersion="2.0.0", suspend=suspend)
    made = plan(reads(invalid, head(), *workers(2)))
    assert made.status is not None
    assert not is_true(made.status.wanted["conditions"], "RayClusterSuspending")


def test_a_drain_that_has_begun_ends_with_the_pod_under_a_refused_edit():
    invalid = cluster(authOptions={"mode": "token"}, rayVersion="2.0.0")
    late, left, again, new = (
        pod(f"example-workers-worker-{i:08d}", **more)
        for i, more in enumerate(
            (
                {"annotations": draining(300)},
                {"annotations": draining(100), **ended("state", 50)},
                {"annotations": draining(100), **ended("lastState", 100)},
                {"annotations": draining(100), **ended("lastState", 101)},
            )
        )
    )
    made = plan(reads(invalid, head(), late, left, again, new, *workers(9)[8:]))
    assert writes(made) == [f"delete Pod {each.metadata.name}" for each in (late, left, again)]
    assert made.requeue_after == 200
    assert writes(plan(reads(invalid, new), seconds=200)) == [f"delete Pod {new.metadata.name}"]
    pending = frozenset({"worker/workers"})
    assert writes(plan(reads(invalid, late, pending=pending))) == []


def ended(where: str, seconds: float) -> dict[str, Any]:
    """The status of a pod whose Ray container ended so long ago."""
    end = {"exitCode": 0, "finishedAt": rfc3339(NOW - timedelta(seconds=seconds))}
    return {"containerStatuses": [{"name": "ray-worker", where: {"terminated": end}}]}


def test_an_odd_restart_policy_is_mentioned_once_a_generation():
    raw = manifest()
    raw["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v1"}}
    raw["spec"]["workerGroupSpecs"][0]["template"]["spec"]["restartPolicy"] = "Always"
    obj = cluster(raw)
    assert "restartPolicy" in plan(reads(obj)).events[0].note
    assert plan(reads(with_status(obj, {"observedGeneration": 1}))).events == ()


def test_autoscaling_needs_access_and_what_exists_is_not_made_again():
    obj = cluster(enableInTreeAutoscaling=True)
    assert writes(plan(settled(obj, head(), *workers(2)))) == [
        "create ServiceAccount example",
        "create Role example",
        "create RoleBinding example",
    ]
    existing = KubeObject(metadata=meta("example", owner_references=(owner("other"),)))
    kept = settled(obj, head(), *workers(2))
    for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS):
        kept.add(resource, existing)
    assert plan(kept).stages == ()
    taken = {f"{k}/default/example" for k in ("ServiceAccount", "Role", "RoleBinding")}
    assert plan(settled(obj, head(), *workers(2), taken=taken)).stages == ()


@pytest.mark.parametrize("more", [{}, {"suspend": True}])
def test_a_binding_is_made_after_its_role_or_the_server_refuses_it(more: dict[str, Any]):
    obj = cluster(enableInTreeAutoscaling=True, **more)
    kinds = [{w.target.resource for w in stage} for stage in plan(settled(obj)).stages]
    assert kinds[:2] == [{SERVICE_ACCOUNTS, ROLES}, {ROLE_BINDINGS}]


def test_a_service_account_of_the_user_is_bound_and_not_made():
    raw = manifest()
    raw["spec"]["enableInTreeAutoscaling"] = True
    raw["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] = "mine"
    mine = KubeObject(metadata=meta("mine"))
    made = plan(settled(cluster(raw), *workers(2)).add(SERVICE_ACCOUNTS, mine))
    assert writes(made)[:2] == ["create Role example", "create RoleBinding example"]
    role, binding, pod_ = (w.body for stage in made.stages for w in stage)
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "mine", "namespace": "default"}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "example"
    assert pod_["spec"]["serviceAccountName"] == "mine"
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {
        "get",
        "list",
        "watch",
        "patch",
    }


def test_a_service_of_that_name_that_is_not_ours_is_waited_for():
    foreign = with_meta(SERVICE, owner_references=(owner("uid-of-the-previous-example"),))
    made = plan(reads(cluster()).add(SERVICES, foreign))
    assert made.stages == ()
    assert made.requeue_after == BLOCKED_RETRY
    taken = plan(reads(cluster(), taken={"Service/default/example-head-svc"}))
    assert taken.stages == ()


def test_a_head_service_under_an_earlier_name_stays_beside_the_new_one():
    earlier = with_meta(SERVICE, name="earlier")
    made = plan(reads(cluster(), head(), *workers(2)).add(SERVICES, earlier))
    assert writes(made) == ["create Service example-head-svc"], "new pods use the new name"
    changed = [write for write in made.independent if write.target.resource is SERVICES]
    assert changed == [], "running pods use the earlier one"


def suspension(suspending: str, suspended: str) -> dict[str, Any]:
    return {
        "conditions": [
            {"type": "RayClusterSuspending", "status": suspending},
            {"type": "RayClusterSuspended", "status": suspended},
        ]
    }


def conditions(made: Plan) -> dict[str, str]:
    assert made.status is not None
    return {c["type"]: c["status"] for c in made.status.wanted["conditions"]}


def test_suspending_is_stored_before_the_first_pod_goes():
    made = plan(settled(cluster(suspend=True), head(), *workers(2)))
    assert made.stages == ()
    assert conditions(made)["RayClusterSuspending"] == "True"


@pytest.mark.parametrize("suspend", [True, False, None])
def test_a_stored_suspension_is_carried_through_whatever_the_specification_says(
    suspend: bool | None,
):
    obj = with_status(cluster(suspend=suspend), suspension("True", "False"))
    made = plan(settled(obj, head(), *workers(2), pod("going", terminating=True)))
    assert len(verbs(made, Delete)) == 3
    assert verbs(made, Create) == []
    assert conditions(made)["RayClusterSuspending"] == "True"
    unconfirmed = plan(settled(obj))
    assert unconfirmed.lookups == (LiveList(PODS, "default", "ray.io/cluster=example"),)
    assert unconfirmed.status is None, "no pod is visible, which does not mean that there is none"
    emptied = plan(settled(obj, listed=True))
    assert emptied.stages == ()
    assert conditions(emptied)["RayClusterSuspending"] == "False"
    assert conditions(emptied)["RayClusterSuspended"] == "True"
    assert conditions(emptied)["RayClusterProvisioned"] == "False"


def test_a_suspension_does_not_end_while_a_lost_create_may_still_bring_a_pod():
    obj = with_status(cluster(suspend=True), suspension("True", "False"))
    made = plan(settled(obj, pending=frozenset({"worker/workers"})))
    assert conditions(made)["RayClusterSuspending"] == "True"
    assert conditions(made)["RayClusterSuspended"] == "False"
    assert made.status is not None
    assert made.status.wanted["state"] is None


@pytest.mark.parametrize(("suspend", "resumes"), [(True, False), (None, False), (False, True)])
def test_only_an_explicit_false_resumes(suspend: bool | None, resumes: bool):
    obj = with_status(cluster(suspend=suspend), suspension("False", "True"))
    made = plan(settled(obj))
    assert made.stages == (), "pods come in the pass after the one that stores the decision"
    assert conditions(made)["RayClusterSuspended"] == ("False" if resumes else "True")


@pytest.mark.parametrize("suspend", [True, None])
def test_a_pod_that_comes_late_to_a_suspended_cluster_goes_again(suspend: bool | None):
    obj = with_status(cluster(suspend=suspend), suspension("False", "True"))
    assert verbs(plan(settled(obj, head(), *workers(1))), Delete) != []
    resumed = with_status(cluster(suspend=False), suspension("False", "True"))
    assert verbs(plan(settled(resumed, head(), *workers(1))), Delete) == []


def test_one_plan_creates_a_batch_and_not_more():
    made = plan(settled(scaled(500, maxReplicas=None), head(), *workers(3)))
    assert len(verbs(made, Create)) <= RaySettings().batch
    raw = manifest()
    group = raw["spec"]["workerGroupSpecs"][0] | {"replicas": 100, "maxReplicas": 100}
    raw["spec"]["workerGroupSpecs"] = [group, group | {"groupName": "second"}]
    made = plan(settled(cluster(raw), head()))
    first, second = verbs(made, Create, "worker/workers"), verbs(made, Create, "worker/second")
    assert len(first) == len(second) == RaySettings().batch / 2
    assert verbs(made, Create)[:4] == [first[0], second[0], first[1], second[1]], "in turn"
    raw["spec"]["workerGroupSpecs"] = [group, group | {"groupName": "second", "replicas": 3}]
    made = plan(settled(cluster(raw), head()))
    assert len(verbs(made, Create, "worker/second")) == 3


def test_a_group_whose_last_write_was_not_answered_leaves_the_batch_to_the_others():
    raw = manifest()
    group = raw["spec"]["workerGroupSpecs"][0] | {"replicas": 500, "maxReplicas": 500}
    raw["spec"]["workerGroupSpecs"] = [group, group | {"groupName": "second"}]
    waiting = frozenset({"worker/workers"})
    made = plan(settled(cluster(raw), head(), pending=waiting))
    assert len(verbs(made, Create, "worker/second")) == RaySettings().batch


def test_every_delete_names_the_uid():
    made = plan(settled(scaled(0), head(phase="Failed"), *workers(2), pod("o", "old")))
    deletes = [w for stage in made.stages for w in stage]
    assert len(deletes) == 4
    assert all(isinstance(d, Delete) and d.uid == f"uid-of-{d.target.name}" for d in deletes)


def test_an_absent_number_and_its_default_of_zero_mean_the_same():
    raw = manifest()
    (group,) = raw["spec"]["workerGroupSpecs"]
    group |= {"replicas": 0, "priority": 0, "numOfHosts": 0}
    zero = plan(settled(cluster(copy.deepcopy(raw)), head(), *workers(2)))
    for field in ("replicas", "priority", "numOfHosts"):
        group[field] = None
    absent = plan(settled(cluster(copy.deepcopy(raw)), head(), *workers(2)))
    assert len(verbs(zero, Delete)) == 2
    assert zero.status is not None
    assert zero == absent


def test_a_pod_that_cannot_be_read_is_not_taken_for_absent():
    readable = settled(cluster(), head(), *workers(1))
    assert verbs(plan(readable), Create)
    odd = unreadable("example-workers-worker-x", "phase: not a str")
    hidden = settled(cluster(), head(), *workers(1), odd=odd)
    made = plan(hidden)
    assert made.stages == ()
    assert made.requeue_after == BLOCKED_RETRY
    assert made.status is not None
    [ready] = [c for c in made.status.wanted["conditions"] if c["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "PodUnreadable")
    assert "example-workers-worker-x exists but cannot be read" in ready["message"]


@pytest.mark.parametrize("owner_uid", ["uid-of-example-b", None])
def test_an_unreadable_pod_of_another_cluster_blocks_nothing(owner_uid: str | None):
    """Neither one of `example-b`, whose names begin alike, nor one that nobody owns."""
    odd = unreadable("example-b-head-aaaaaaaa", "phase: not a str", owner_uid=owner_uid)
    made = plan(settled(cluster(), head(), *workers(1), odd=odd))
    assert verbs(made, Create)
    assert made.requeue_after is None


def test_an_unreadable_pod_without_a_readable_owner_belongs_to_the_cluster_of_its_label():
    labels = {"ray.io/cluster": "example"}
    odd = unreadable("x", "metadata.ownerReferences: not a list", owner_uid=None, **labels)
    assert plan(settled(cluster(), head(), *workers(1), odd=odd)).stages == ()


def test_an_unreadable_pod_without_owner_and_labels_is_the_head_that_the_status_names():
    odd = unreadable("example-head-x", "metadata: not an object", owner_uid=None)
    known = cluster()
    known.status["head"] = {"podName": "example-head-x"}
    made = plan(settled(known, *workers(1), odd=odd))
    assert made.stages == ()
    assert made.status is not None
    [ready] = [c for c in made.status.wanted["conditions"] if c["type"] == "Ready"]
    assert "example-head-x exists but cannot be read" in ready["message"]


def test_everything_that_is_made_belongs_to_the_cluster():
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 2
    made = plan(reads(cluster(raw, enableInTreeAutoscaling=True)))
    bodies = [w.body for stage in made.stages for w in stage]
    assert len(bodies) == 10
    for body in bodies:
        (reference,) = body["metadata"]["ownerReferences"]
        assert (reference["uid"], reference["controller"]) == (UID, True)
