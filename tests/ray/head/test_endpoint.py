"""What points to a head follows the head that exists, whatever its template says meanwhile."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controller.kube.objects import KubeObject, Pod, PodStatus
from controller.kube.resources import (
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROUTES,
    Resource,
)
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.cluster import RayClusterKind
from controller.ray.dashboard.responses import JobStatus
from controller.ray.settings import RaySettings
from controller.runtime.plan import Create, Delete, MergePatch, Plan
from tests.ray.cluster.support import (
    UID,
    cache,
    cluster,
    head,
    manifest,
    owner,
    plan,
    reads,
    with_meta,
)
from tests.ray.cluster.test_plan import settled, verbs
from tests.ray.job.scenes import Scene, head_pod

Json = dict[str, Any]
Children = list[tuple["Resource[Any]", KubeObject]]
NAME = "app.kubernetes.io/name"
HEAD_SERVICE = "Service example-head-svc"


def template(raw: Json) -> Json:
    return raw["spec"]["headGroupSpec"]["template"]


def ray(raw: Json) -> Json:
    return template(raw)["spec"]["containers"][0]


def sample() -> Json:
    """A cluster with everything that points to its head; its template names a label."""
    raw = manifest()
    raw["metadata"]["annotations"] = {labels.ENABLE_SERVE_SERVICE: "true"}
    raw["spec"]["enableInTreeAutoscaling"] = True
    raw["spec"]["headGroupSpec"]["enableIngress"] = True
    template(raw).setdefault("metadata", {})["labels"] = {NAME: "conv"}
    ray(raw)["ports"] = [
        {"name": "dashboard", "containerPort": 8265},
        {"name": "serve", "containerPort": 8000},
    ]
    return raw


def made_for(raw: Json, *, routes: bool = False) -> tuple[Pod, Children]:
    """The ready head and the children that this manifest gets."""
    kept = cache(served={ROUTES} if routes else set())
    made = plan(kept.add(RAYCLUSTERS, cluster(copy.deepcopy(raw))))
    bodies = [
        (write.target.resource, copy.deepcopy(dict(write.body)))
        for stage in (*made.stages, made.independent)
        for write in stage
        if isinstance(write, Create)
    ]
    children = [(r, msgspec.convert(body, r.view)) for r, body in bodies if r is not PODS]
    (head,) = (
        body
        for _, body in bodies
        if "example-head-" in body["metadata"]["name"] and body["kind"] == "Pod"
    )
    head["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    del head["metadata"]["ownerReferences"]
    pod = msgspec.convert(head, Pod)
    return with_meta(pod, uid="of-head", owner_references=(owner(UID),)), children


def plan_of(raw: Json, children: Children, *heads: Pod, routes: bool = False) -> Plan:
    kept = cache(served={ROUTES} if routes else set())
    kept.add(RAYCLUSTERS, cluster(copy.deepcopy(raw))).add(PODS, *heads)
    for resource, obj in children:
        kept.add(resource, obj)
    return plan(kept)


def changes(made: Plan) -> dict[str, Any]:
    """What is changed in the children, by kind and name."""
    return {
        f"{write.target.resource.kind} {write.target.name}": write.patch
        for write in made.independent
        if isinstance(write, MergePatch) and write.target.resource is not PODS
    }


def ready(made: Plan) -> tuple[str, str]:
    assert made.status is not None
    (found,) = (c for c in made.status.wanted["conditions"] if c["type"] == "Ready")
    return found["reason"], found["message"]


def relabelled(pod: Pod, **changed: str | None) -> Pod:
    """The pod, after somebody has edited its labels."""
    found = dict(pod.metadata.labels or {}) | changed
    return with_meta(pod, labels={key: each for key, each in found.items() if each is not None})


def set_labels(raw: Json, **values: str) -> None:
    template(raw)["metadata"]["labels"] = values


LABELS: dict[str, Callable[[Json], None]] = {
    "changed": lambda raw: set_labels(raw, **{NAME: "conv2"}),
    "removed": set_labels,
    "added": lambda raw: set_labels(raw, **{NAME: "conv", labels.CREATED_BY: "me"}),
    "the identifier": lambda raw: set_labels(raw, **{NAME: "conv", labels.IDENTIFIER: "odd"}),
    "of the group": lambda raw: raw["spec"]["headGroupSpec"].update(labels={NAME: "group"}),
}
PORTS: dict[str, Callable[[Json], None]] = {
    "another dashboard": lambda raw: ray(raw)["ports"][0].update(containerPort=9265),
    "another serve": lambda raw: ray(raw)["ports"][1].update(containerPort=9000),
    "renamed": lambda raw: ray(raw)["ports"][1].update(name="serve-http"),
    "removed": lambda raw: ray(raw)["ports"].pop(),
    "none any more": lambda raw: ray(raw).pop("ports"),
}


@pytest.mark.parametrize("edit", LABELS)
def test_the_services_of_a_running_head_keep_selecting_it_after_an_edit_of_labels(edit: str):
    raw = sample()
    head, children = made_for(raw)
    LABELS[edit](raw)
    made = plan_of(raw, children, head)
    assert changes(made) == {}
    assert ready(made)[0] != "HeadNotSelected"


@pytest.mark.parametrize("routes", [False, True])
@pytest.mark.parametrize("edit", PORTS)
def test_the_ports_of_a_running_head_stay_those_of_its_container(edit: str, routes: bool):
    raw = sample()
    head, children = made_for(raw, routes=routes)
    PORTS[edit](raw)
    for name, patch in changes(plan_of(raw, children, head, routes=routes)).items():
        assert name == HEAD_SERVICE, "ports that are new may be added to this one alone"
        found = {port["name"]: port["port"] for port in patch["spec"].pop("ports")}
        assert found["dashboard"] == 8265
        assert found["serve"] == 8000
        assert patch["spec"] == {}


def test_a_port_that_only_the_template_names_is_added_for_the_running_head():
    raw = sample()
    ray(raw)["ports"].pop()
    head, children = made_for(raw)
    ray(raw)["ports"].append({"name": "serve", "containerPort": 8000})
    made = plan_of(raw, children, head)
    assert "example-serve-svc" in {write.target.name for write in made.independent}
    ports = changes(made)[HEAD_SERVICE]["spec"]["ports"]
    assert {port["name"]: port["port"] for port in ports} == {
        "dashboard": 8265,
        "metrics": 8080,
        "serve": 8000,
    }


def test_a_head_without_declared_ports_keeps_those_of_ray_when_its_template_declares_others():
    raw = sample()
    del ray(raw)["ports"]
    head, children = made_for(raw)
    ray(raw)["ports"] = [{"name": "dashboard", "containerPort": 9265}]
    assert changes(plan_of(raw, children, head)) == {}


def test_a_new_head_is_followed_while_an_old_one_terminates():
    raw = sample()
    head, children = made_for(raw)
    set_labels(raw, **{NAME: "conv2"})
    new, _ = made_for(raw)
    new = with_meta(new, name="example-head-new", uid="new")
    old = with_meta(head, deletion_timestamp="2026-08-20T09:59:00Z")
    starting = msgspec.structs.replace(new, status=PodStatus(phase="Pending"))
    for each in (new, starting):
        patch = changes(plan_of(raw, children, old, each))[HEAD_SERVICE]
        assert patch["spec"]["selector"] == {NAME: "conv2"}
    assert changes(plan_of(raw, children, old)) == {}, "there is no other head yet"


def test_a_label_edited_on_the_running_head_is_followed():
    raw = sample()
    head, children = made_for(raw)
    made = plan_of(raw, children, relabelled(head, **{NAME: "by-hand"}))
    assert changes(made)[HEAD_SERVICE]["spec"]["selector"] == {NAME: "by-hand"}
    assert ready(made)[0] == "HeadNotSelected"
    assert ready(made)[1].endswith("the operator corrects the service")
    made = plan_of(raw, children, relabelled(head, **{NAME: None}))
    assert changes(made)[HEAD_SERVICE]["spec"]["selector"] == {NAME: None}


def test_a_ready_head_without_the_label_of_its_cluster_makes_it_not_ready_with_the_remedy():
    raw = sample()
    head, children = made_for(raw)
    made = plan_of(raw, children, relabelled(head, **{labels.CLUSTER: "another"}))
    assert changes(made) == {}, "the service must not select the pods of another cluster"
    reason, message = ready(made)
    assert reason == "HeadNotSelected"
    assert message.startswith(f"head: pod {head.metadata.name} is ready, but Service ")
    assert message.endswith(
        f"kubectl label pod -n default {head.metadata.name} --overwrite ray.io/cluster=example"
    )


def subjects(made: Plan) -> list[str]:
    """The accounts of the binding that is created now."""
    (body,) = (
        write.body
        for stage in made.stages
        for write in stage
        if isinstance(write, Create) and write.target.resource is ROLE_BINDINGS
    )
    return [subject["name"] for subject in body["subjects"]]


def test_the_account_of_a_running_autoscaler_keeps_its_rights_beside_a_new_one():
    raw = sample()
    head, children = made_for(raw)
    template(raw)["spec"]["serviceAccountName"] = "own"
    made = plan_of(raw, children, head)
    deleted = [write.target.name for write in made.independent if isinstance(write, Delete)]
    assert deleted == ["example"], "no granted verb changes a binding"
    without = [each for each in children if each[0] is not ROLE_BINDINGS]
    assert subjects(plan_of(raw, without, head)) == ["example", "own"]
    new = with_meta(head, uid="new")
    new = msgspec.structs.replace(
        new, spec=msgspec.structs.replace(new.spec, service_account_name="own")
    )
    assert subjects(plan_of(raw, without, new)) == ["own"]


def test_a_head_without_an_autoscaler_gives_its_account_no_rights():
    raw = sample()
    raw["spec"]["enableInTreeAutoscaling"] = False
    template(raw)["spec"]["serviceAccountName"] = "shared"
    head, _ = made_for(raw)
    raw["spec"]["enableInTreeAutoscaling"] = True
    template(raw)["spec"]["serviceAccountName"] = "own"
    assert subjects(plan_of(raw, [], head)) == ["own"]


def test_of_the_variables_of_a_pod_only_the_port_of_the_gcs_is_kept():
    env = [
        {"name": "RAY_PORT", "value": "6379"},
        {"name": "PASSWORD", "value": "12345"},
        {"name": "RAY_ADDRESS", "value": "head:6379"},
    ]
    odd = [{"name": "RAY_PORT", "value": "$(PORT)"}, {"name": "RAY_PORT"}]
    pod = {"spec": {"containers": [{"env": env}, {"env": odd}]}}
    read = msgspec.json.decode(msgspec.json.encode(pod), type=Pod)
    values = [each.value for container in read.spec.containers for each in container.env]
    assert values == ["6379", "", "", "", ""]


def test_the_submitter_reaches_the_dashboard_that_is_there_and_the_one_that_follows_it():
    raw = sample()
    raw["metadata"]["labels"] = {"ray.io/job-submission-mode": "K8sJobMode"}
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": "1"}
    raw["metadata"]["ownerReferences"] = [job | {"controller": True}]
    head, _ = made_for(raw)
    raw["spec"]["networkPolicy"] = {}
    raw["spec"]["headGroupSpec"]["rayStartParams"] = {"dashboard-port": "9265"}
    ray(raw)["ports"][0]["containerPort"] = 9265
    kept = cache(served={NETWORK_POLICIES}).add(RAYCLUSTERS, cluster(raw)).add(PODS, head)
    made = plan(kept)
    (policy,) = (
        write.body
        for stage in made.stages
        for write in stage
        if isinstance(write, Create)
        and (write.target.resource, write.target.name) == (NETWORK_POLICIES, "example-head")
    )
    ports = [port["port"] for port in policy["spec"]["ingress"][1]["ports"]]
    assert ports == [9265, 8265]


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


# -- the service as it is made -------------------------------------------------------------------


SELECTOR = {
    "ray.io/cluster": "example",
    "ray.io/node-type": "head",
    "ray.io/identifier": "example-head",
    "app.kubernetes.io/name": "kuberay",
    "app.kubernetes.io/created-by": "kuberay-operator",
}


def services_of(raw: dict[str, Any], settings: RaySettings | None = None) -> list[Any]:
    made = plan(reads(cluster(raw)), RayClusterKind(settings))
    bodies = [write.body for stage in made.stages for write in stage]
    return [body for body in bodies if body["kind"] == "Service"]


def port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": number, "appProtocol": "tcp"}


def test_the_generated_service_is_headless_and_has_the_heads_ports():
    (service,) = services_of(manifest())
    assert service["metadata"]["name"] == "example-head-svc"
    assert service["metadata"]["labels"] == SELECTOR
    assert service["spec"] == {
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": SELECTOR,
        "ports": [
            port("client", 10001),
            port("dashboard", 8265),
            port("gcs-server", 6379),
            port("metrics", 8080),
        ],
    }


def test_without_ports_of_the_head_there_are_five_and_unnamed_ones_get_names():
    raw = manifest()
    container = raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    del container["ports"]
    (service,) = services_of(raw)
    assert [p["name"] for p in service["spec"]["ports"]] == [
        "client",
        "dashboard",
        "gcs-server",
        "metrics",
        "serve",
    ]
    container["ports"] = [{"containerPort": 7}]
    (service,) = services_of(raw)
    assert service["spec"]["ports"] == [port("7-port", 7), port("metrics", 8080)]


def test_other_types_and_the_switch_give_a_cluster_ip():
    raw = manifest()
    (service,) = services_of(raw, RaySettings(head_cluster_ip_service=True))
    assert "clusterIP" not in service["spec"]
    raw["spec"]["headGroupSpec"]["serviceType"] = "NodePort"
    (service,) = services_of(raw)
    assert service["spec"]["type"] == "NodePort"
    assert "clusterIP" not in service["spec"]
    assert "publishNotReadyAddresses" not in service["spec"]


def test_workers_find_a_custom_service():
    raw = manifest()
    raw["spec"]["headGroupSpec"]["headService"] = {"metadata": {"name": "mine"}}
    made = plan(reads(cluster(raw)))
    worker = made.stages[2][0].body
    command = worker["spec"]["containers"][0]["args"][0]
    assert "--address=mine.default.svc.cluster.local:6379" in command
