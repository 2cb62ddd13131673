"""The head service, generated and custom, and the headless one."""

from __future__ import annotations

from typing import Any

from controller.ray.cluster import RayClusterKind
from controller.ray.settings import RaySettings
from tests.ray.cluster.support import cluster, manifest, plan, reads

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


def test_a_custom_service_is_completed():
    raw = manifest()
    raw["spec"]["headServiceAnnotations"] = {"a": "ours", "b": "ours"}
    raw["spec"]["headGroupSpec"]["headService"] = {
        "metadata": {
            "name": "mine",
            "namespace": "elsewhere",
            "labels": {"team": "a", "ray.io/cluster": "x"},
            "annotations": {"a": "theirs", "c": "theirs"},
        },
        "spec": {
            "clusterIP": "10.0.0.9",
            "selector": {"app": "x"},
            "ports": [{"name": "dashboard", "port": 80, "targetPort": 8265}],
        },
    }
    (service,) = services_of(raw)
    assert service["metadata"]["name"] == "mine"
    assert service["metadata"]["namespace"] == "default"
    assert service["metadata"]["labels"] == SELECTOR | {"team": "a"}
    annotations = service["metadata"]["annotations"]
    del annotations["manta.dev/owned-fields"]
    assert annotations == {"a": "ours", "b": "ours", "c": "theirs"}
    assert service["spec"]["clusterIP"] == "10.0.0.9"
    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["selector"] == SELECTOR
    assert service["spec"]["ports"][0] == {"name": "dashboard", "port": 80, "targetPort": 8265}
    assert [p["name"] for p in service["spec"]["ports"]] == [
        "dashboard",
        "gcs-server",
        "client",
        "metrics",
    ]


def test_workers_find_a_custom_service():
    raw = manifest()
    raw["spec"]["headGroupSpec"]["headService"] = {"metadata": {"name": "mine"}}
    made = plan(reads(cluster(raw)))
    worker = made.stages[2][0].body
    command = worker["spec"]["containers"][0]["args"][0]
    assert "--address=mine.default.svc.cluster.local:6379" in command


def test_several_hosts_a_replica_need_a_headless_service():
    raw = manifest()
    raw["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 2
    _, headless = services_of(raw)
    assert headless["metadata"]["name"] == "example-headless"
    assert headless["metadata"]["labels"] == {"ray.io/headless-worker-svc": "example"}
    assert headless["spec"] == {
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"ray.io/cluster": "example", "ray.io/node-type": "worker"},
    }
