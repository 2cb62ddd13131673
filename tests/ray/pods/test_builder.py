"""Pods against golden files that were written by hand from the rules, and single rules."""

from __future__ import annotations

import copy
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import DesiredCluster
from controller.ray.settings import RaySettings
from tests.ray.cluster.support import UID, cluster, manifest, plan, reads

GOLDEN = Path(__file__).parent / "golden"
SETTINGS = RaySettings(version="manta-test")
HASHES = (
    "manta.dev/cluster-options",
    "manta.dev/pod-template-hash",
    "ray.io/upgrade-strategy-recreate-hash",
)


def pods_of(raw: dict[str, Any], settings: RaySettings = SETTINGS) -> list[dict[str, Any]]:
    """Bodies of the pods that are made for a new cluster, the head first."""
    made = plan(reads(cluster(raw)), RayClusterKind(settings))
    bodies = [dict(write.body) for stage in made.stages for write in stage]
    pods = [body for body in bodies if body["kind"] == "Pod"]
    return sorted(pods, key=lambda pod: pod["metadata"]["labels"]["ray.io/node-type"])


def head_of(raw: dict[str, Any], settings: RaySettings = SETTINGS) -> dict[str, Any]:
    return pods_of(raw, settings)[0]


def worker_of(raw: dict[str, Any], settings: RaySettings = SETTINGS) -> dict[str, Any]:
    return pods_of(raw, settings)[1]


def ray(pod: dict[str, Any]) -> dict[str, Any]:
    return pod["spec"]["containers"][0]


def env(pod: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in ray(pod)["env"]]


def value(container: dict[str, Any], name: str) -> str:
    return next(entry["value"] for entry in container["env"] if entry["name"] == name)


def masked(pod: dict[str, Any]) -> dict[str, Any]:
    pod = copy.deepcopy(pod)
    pod["metadata"]["name"] = "NAME"
    for key in HASHES:
        if key in pod["metadata"]["annotations"]:
            pod["metadata"]["annotations"][key] = "HASH"
    for container in pod["spec"].get("initContainers", ()):
        assert "ray health-check --address example-head-svc.default" in container["args"][0]
        container["args"] = ["WAIT"]
    return pod


@pytest.mark.parametrize(
    ("example", "golden"),
    [
        ("raycluster.yaml", "example.head"),
        ("raycluster.yaml", "example.worker"),
        ("raycluster-volumes.yaml", "volumes.head"),
        ("raycluster-volumes.yaml", "volumes.worker"),
        ("raycluster-autoscaler.yaml", "autoscaler.head"),
        ("raycluster-autoscaler.yaml", "autoscaler.worker"),
        ("raycluster-head-command.yaml", "head-command.head"),
    ],
)
def test_pods_of_the_examples_are_as_written_down(example: str, golden: str):
    build = head_of if golden.endswith("head") else worker_of
    expected = yaml.safe_load((GOLDEN / f"{golden}.yaml").read_text())
    assert masked(build(manifest(example))) == expected


def test_labels_that_identify_a_pod_cannot_be_overridden_and_others_can():
    raw = manifest()
    raw["spec"]["headGroupSpec"]["template"]["metadata"] = {
        "namespace": "elsewhere",
        "name": "mine",
        "labels": {
            "ray.io/cluster": "x",
            "ray.io/node-type": "x",
            "ray.io/group": "x",
            "app.kubernetes.io/name": "mine",
            "team": "a",
        },
    }
    raw["spec"]["headGroupSpec"]["labels"] = {"team": "b"}
    made = plan(reads(cluster(raw)))
    service, head = made.stages[0][0].body, made.stages[1][0].body
    got = head["metadata"]["labels"]
    assert got["ray.io/cluster"] == "example"
    assert got["ray.io/node-type"] == "head"
    assert got["ray.io/group"] == "headgroup"
    assert got["app.kubernetes.io/name"] == "mine"
    assert got["team"] == "b"
    assert head["metadata"]["namespace"] == "default"
    assert head["metadata"]["name"].startswith("example-head-")
    selector = service["spec"]["selector"]
    assert selector == {key: got[key] for key in selector}


def test_of_a_templates_metadata_only_labels_annotations_and_finalizers_reach_a_pod():
    raw = manifest()
    kept = {"annotations": {"note": "n"}, "finalizers": ["a.b/c"], "labels": {"team": "a"}}
    dropped = {
        "generateName": "mine-",
        "name": "mine",
        "ownerReferences": [{"uid": "somebody"}],
        "resourceVersion": "7",
        "uid": "mine",
    }
    for group in (raw["spec"]["headGroupSpec"], raw["spec"]["workerGroupSpecs"][0]):
        group["template"]["metadata"] = kept | dropped
    for pod in pods_of(raw):
        metadata = pod["metadata"]
        assert metadata.keys() == {*kept, "name", "namespace", "ownerReferences"}
        assert metadata["name"].startswith("example-")
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [UID]
        assert metadata["finalizers"] == ["a.b/c"]
        assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("a", "n")


def test_variables_of_the_user_come_first_and_stay():
    raw = manifest()
    own = [{"name": "RAY_PORT", "value": "1"}, {"name": "RAY_ADDRESS", "value": "a"}]
    raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] = own
    head = head_of(raw)
    assert env(head)[:2] == ["RAY_PORT", "RAY_ADDRESS"]
    assert env(head).count("RAY_PORT") == env(head).count("RAY_ADDRESS") == 1


def test_the_init_container_has_the_variables_of_the_template_and_every_one_finds_the_head():
    raw = manifest()
    spec = raw["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    spec["containers"][0]["env"] = [{"name": "MINE", "value": "1"}]
    spec["initContainers"] = [{"name": "own", "image": "busybox"}]
    own, waiting = worker_of(raw)["spec"]["initContainers"]
    assert [entry["name"] for entry in own["env"]] == ["FQ_RAY_IP", "RAY_IP"]
    assert waiting["name"] == "wait-gcs-ready"
    assert [entry["name"] for entry in waiting["env"]] == ["MINE", "FQ_RAY_IP", "RAY_IP"]


def test_a_container_that_waits_for_the_head_is_sized_by_one_of_its_name():
    raw = manifest()
    spec = raw["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    (ours,) = worker_of(raw)["spec"]["initContainers"]
    sizes = {"requests": {"memory": "512Mi"}}
    spec["initContainers"] = [{"name": "wait-gcs-ready", "resources": sizes}]
    (sized,) = worker_of(raw)["spec"]["initContainers"]
    assert sized == ours | {"resources": sizes}
    spec["initContainers"] = [{"name": "wait-gcs-ready", "image": "mine"}]
    (own,) = worker_of(raw)["spec"]["initContainers"]
    assert "args" not in own, "a whole container of the user's stays as it is"


def test_a_command_that_starts_ray_itself_is_left_alone():
    raw = manifest()
    container = raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container |= {"command": ["/bin/sh", "-c"], "args": ["ray start --head --block"]}
    assert ray(head_of(raw))["command"] == ["/bin/sh", "-c"]
    assert ray(head_of(raw))["args"] == ["ray start --head --block"]
    assert value(ray(head_of(raw)), "KUBERAY_GEN_RAY_START_CMD").startswith("ray start --head ")


@pytest.mark.parametrize("where", ["cluster", "template"])
def test_an_annotation_leaves_the_command_to_the_user(where: str):
    raw = manifest()
    template = raw["spec"]["headGroupSpec"]["template"]
    annotation = {"annotations": {"ray.io/overwrite-container-cmd": "True"}}
    if where == "cluster":
        raw["metadata"] |= annotation
    else:
        template["metadata"] = annotation
    template["spec"]["containers"][0]["command"] = ["sleep"]
    head = head_of(raw)
    assert ray(head)["command"] == ["sleep"]
    assert "args" not in ray(head)
    assert head["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"


def test_own_probes_ports_and_mounts_win():
    raw = manifest()
    container = raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container |= {
        "livenessProbe": {"httpGet": {"port": 1}},
        "volumeMounts": [{"name": "fast", "mountPath": "/dev/shm"}],
        "ports": [{"name": "metrics", "containerPort": 9090}],
    }
    head = head_of(raw)
    assert ray(head)["livenessProbe"] == {"httpGet": {"port": 1}}
    assert ray(head)["readinessProbe"]["failureThreshold"] == 10
    assert ray(head)["volumeMounts"] == [{"name": "fast", "mountPath": "/dev/shm"}]
    assert ray(head)["ports"] == [{"name": "metrics", "containerPort": 9090}]
    assert "volumes" not in head["spec"]


def test_the_switches_of_an_administrator_are_obeyed():
    settings = RaySettings.from_environment(
        {
            "ENABLE_INIT_CONTAINER_INJECTION": "false",
            "ENABLE_PROBES_INJECTION": "False",
            "ENABLE_LOGIN_SHELL": "true",
            "CLUSTER_DOMAIN": "corp.example",
            "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE": "true",
            "ENABLE_RANDOM_POD_DELETE": "TRUE",
        }
    )
    worker = worker_of(manifest(), settings)
    assert "initContainers" not in worker["spec"]
    assert "livenessProbe" not in ray(worker)
    assert ray(worker)["command"] == ["/bin/bash", "-cl", "--"]
    assert value(ray(worker), "FQ_RAY_IP") == "example-head-svc.default.svc.corp.example"
    assert settings.head_cluster_ip_service
    assert settings.delete_unnamed
    assert RaySettings.from_environment({"WATCH_NODES": "TRUE"}).watch_nodes


def test_defaults_of_an_administrator_are_added_where_nothing_is_said():
    settings = RaySettings(
        pod_labels={"team": "default", "cost": "1"},
        pod_annotations={"note": "default"},
        container_env=({"name": "PROXY", "value": "p"}, {"name": "MINE", "value": "default"}),
        head_sidecars=({"name": "sidecar", "image": "s"},),
        worker_sidecars=({"name": "other", "image": "s"},),
    )
    raw = manifest()
    template = raw["spec"]["headGroupSpec"]["template"]
    template["metadata"] = {"labels": {"team": "mine"}, "annotations": {"note": "mine"}}
    template["spec"]["containers"][0]["env"] = [{"name": "MINE", "value": "mine"}]
    head, worker = head_of(raw, settings), worker_of(raw, settings)
    assert head["metadata"]["labels"]["team"] == "mine"
    assert head["metadata"]["labels"]["cost"] == "1"
    assert head["metadata"]["annotations"]["note"] == "mine"
    assert worker["metadata"]["annotations"]["note"] == "default"
    assert env(head)[:2] == ["MINE", "PROXY"]
    assert value(ray(head), "MINE") == "mine"
    assert [c["name"] for c in head["spec"]["containers"]] == ["ray-head", "sidecar"]
    assert [c["name"] for c in worker["spec"]["containers"]] == ["ray-worker", "other"]


def test_pods_of_a_ray_service_serve_and_probe_their_proxy():
    raw = manifest()
    raw["metadata"]["labels"] = {"ray.io/originated-from-crd": "RayService"}
    raw["spec"]["rayVersion"] = "2.60.0"
    head, worker = pods_of(raw)[:2]
    assert head["metadata"]["labels"]["ray.io/serve"] == "false"
    assert worker["metadata"]["labels"]["ray.io/serve"] == "true"
    probe = ray(worker)["readinessProbe"]
    assert probe["failureThreshold"] == 1
    assert "http://localhost:8000/-/healthz" in probe["exec"]["command"][2]
    assert "httpGet" in ray(worker)["livenessProbe"]
    assert "httpGet" in ray(head)["readinessProbe"]
    assert value(ray(worker), "RAY_SERVE_KV_TIMEOUT_S") == "5"
    assert value(ray(head), "RAY_USAGE_STATS_EXTRA_TAGS").endswith("kuberay_crd=RayService")


@pytest.mark.parametrize(("version", "expected"), [("v1", "false"), ("v2", "true"), (None, None)])
def test_only_an_explicit_autoscaler_version_is_passed_on(
    version: str | None, expected: str | None
):
    raw = manifest()
    raw["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": version}}
    head, worker = pods_of(raw)[:2]
    passed = [e["value"] for e in ray(head)["env"] if e["name"] == "RAY_enable_autoscaler_v2"]
    assert passed == ([] if expected is None else [expected])
    policies = {pod["spec"].get("restartPolicy") for pod in (head, worker)}
    assert policies == ({"Never"} if version == "v2" else {None})


def test_options_of_the_autoscaler_replace_or_append():
    raw = manifest()
    raw["spec"] |= {
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "image": "other",
            "command": ["c"],
            "args": ["a"],
            "securityContext": {"runAsUser": 1},
            "env": [{"name": "E", "value": "1"}],
            "envFrom": [{"secretRef": {"name": "s"}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        },
    }
    sidecar = head_of(raw)["spec"]["containers"][1]
    assert (sidecar["image"], sidecar["command"], sidecar["args"]) == ("other", ["c"], ["a"])
    assert sidecar["imagePullPolicy"] == "IfNotPresent"
    assert sidecar["resources"]["limits"] == {"cpu": "500m", "memory": "512Mi"}
    assert sidecar["env"][0]["name"] == "RAY_CLUSTER_NAME"
    assert sidecar["env"][-1] == {"name": "E", "value": "1"}
    assert sidecar["envFrom"] == [{"secretRef": {"name": "s"}}]
    assert [m["mountPath"] for m in sidecar["volumeMounts"]] == ["/v", "/tmp/ray"]


def test_nulls_in_a_template_mean_absent():
    raw = manifest()
    container = raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container |= {"env": None, "volumeMounts": None}
    raw["spec"]["headGroupSpec"]["template"]["metadata"] = None
    assert masked(head_of(raw)) == yaml.safe_load((GOLDEN / "example.head.yaml").read_text())


def test_a_builder_is_freed_without_a_garbage_collection():
    """Thousands of them would wait for one."""
    kind = RayClusterKind(SETTINGS)
    design = kind._desired(cluster())
    assert isinstance(design, DesiredCluster)
    builder = design.builder
    assert builder.for_gcs_port("6379") is builder
    other = builder.for_gcs_port("6380")
    assert other is not builder
    assert other.head("a") != builder.head("a")
    gone = weakref.ref(builder), weakref.ref(other)
    gc.disable()
    try:
        del kind, design, builder, other
        assert [each() for each in gone] == [None, None]
    finally:
        gc.enable()
