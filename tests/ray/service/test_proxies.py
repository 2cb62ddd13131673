"""Which proxies are asked, and what follows from their answers for the label of their pods."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller.kube.objects import Pod
from controller.ray.api import RayCluster
from controller.ray.api.raycluster import parse_spec
from controller.ray.api.rayservice import RayService
from controller.ray.dashboard import (
    Head,
    ProbeObservation,
    ProxyHealth,
    ServeApplication,
    ServeState,
)
from controller.ray.head.incarnation import HeadIncarnation
from controller.ray.service.goal import read_goal
from controller.ray.service.observation import ACTIVE, ServiceObservation, ServingCluster
from controller.ray.service.serving.proxies import accepts_requests, gated_pods, proxy_on
from controller.ray.service.serving.serve_label import label_pods
from controller.ray.service.settings import ServiceSettings
from tests.integration.rayservices import service_manifest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = ServiceSettings()
RUNNING = ProbeObservation(ServeState({"hello": ServeApplication("RUNNING")}), NOW)
EMPTY = ProbeObservation(ServeState(), NOW)
WELL = ProbeObservation(ProxyHealth(healthy=True), NOW)
DRAINED = ProbeObservation(ProxyHealth(healthy=False, message="drained"), NOW)
DEAD = replace(WELL, failing_since=NOW, error="refused")
UNKNOWN = ProbeObservation(None, NOW)


def pod(name: str, *, serve: str, ready: bool = True, port: int | None = 8000) -> Pod:
    role = name.partition("-")[0]
    group = "headgroup" if role == "head" else "workers"
    ports = [{"name": "serve", "containerPort": port}] if port else []
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid of {name}",
                "labels": {
                    "ray.io/node-type": role,
                    "ray.io/group": group,
                    "ray.io/serve": serve,
                },
            },
            "spec": {"containers": [{"name": "ray", "ports": ports}]},
            "status": {
                "phase": "Running",
                "podIP": "10.0.0.7",
                "conditions": [{"type": "Ready", "status": str(ready)}],
                "containerStatuses": [{"name": "ray", "restartCount": 2}],
            },
        },
        Pod,
    )


def scene(
    head: Pod,
    *workers: Pod,
    answer: ProbeObservation | None = RUNNING,
    proxy: ProbeObservation | None = WELL,
    own_readiness: bool = False,
    **spec: Any,
) -> ServiceObservation:
    manifest = service_manifest(**spec)
    config = manifest["spec"]["rayClusterConfig"]
    group = config["workerGroupSpecs"][0]
    group["groupName"] = "workers"
    if own_readiness:
        group["template"]["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["x"]}}
    named = manifest | {"metadata": {"name": "svc", "namespace": "default"}}
    service = msgspec.convert(named, RayService)
    body = {"metadata": {"name": "svc-a", "namespace": "default", "uid": "c"}, "spec": config}
    cluster = msgspec.convert(body, RayCluster)
    pods = (head, *workers)
    serving = ServingCluster(
        "svc-a",
        ACTIVE,
        cluster,
        spec=parse_spec(cluster),
        head=HeadIncarnation(head, Head("c", head.metadata.uid, 0, "default", "svc"), "a"),
        answer=answer,
        pods=pods,
        proxies={} if proxy is None else {each.metadata.uid: proxy for each in pods},
    )
    goal = read_goal(service, SETTINGS)
    return ServiceObservation(service, goal, {}, serving)


def labelled(seen: ServiceObservation, settings: ServiceSettings = SETTINGS) -> dict[str, str]:
    return {
        write.target.name: write.patch["metadata"]["labels"]["ray.io/serve"]
        for write in label_pods(seen, settings)
    }


def asked(seen: ServiceObservation, settings: ServiceSettings = SETTINGS) -> list[str]:
    assert seen.active is not None
    return [each.metadata.name for each in gated_pods(seen, seen.active, settings)]


@pytest.mark.parametrize(
    ("proxy", "before", "after"),
    [
        (WELL, "false", "true"),
        (WELL, "true", None),
        (DRAINED, "true", "false"),
        (DEAD, "true", "false"),
        (DEAD, "false", None),
        (UNKNOWN, "true", None),
        (UNKNOWN, "false", None),
        (None, "true", None),
    ],
)
def test_the_label_of_the_head_follows_its_proxy(
    proxy: ProbeObservation | None, before: str, after: str | None
):
    found = labelled(scene(pod("head", serve=before), proxy=proxy))
    assert found == ({"head": after} if after else {})


def test_bug_46_a_head_that_is_not_ready_loses_the_label_until_it_was_asked_again():
    assert labelled(scene(pod("head", serve="true", ready=False))) == {"head": "false"}


def test_bug_45_a_head_of_a_serve_without_applications_gets_no_requests():
    assert labelled(scene(pod("head", serve="true"), answer=EMPTY)) == {"head": "false"}


def test_an_excluded_head_is_not_asked_and_gets_no_requests():
    seen = scene(pod("head", serve="true"), excludeHeadPodFromServeSvc=True)
    assert (asked(seen), labelled(seen)) == ([], {"head": "false"})


def test_workers_are_asked_only_if_the_kubelet_does_not_ask_them():
    pods = pod("head", serve="true"), pod("worker-1", serve="true")
    assert asked(scene(*pods)) == ["head"]
    assert asked(scene(*pods, own_readiness=True)) == ["head", "worker-1"]
    assert asked(scene(*pods), ServiceSettings(probes=False)) == ["head", "worker-1"]


def test_the_label_of_a_worker_that_is_asked_follows_its_proxy():
    pods = pod("head", serve="false"), pod("worker-1", serve="true")
    found = labelled(scene(*pods, own_readiness=True, proxy=DEAD))
    assert found == {"worker-1": "false"}


def test_a_proxy_is_asked_on_the_port_named_serve_or_8000():
    for port, expected in ((9000, 9000), (None, 8000)):
        seen = scene(pod("head", serve="false", port=port))
        assert seen.active is not None
        proxy = proxy_on(seen.active, seen.active.pods[0])
        assert proxy is not None
        assert (proxy.port, proxy.address, proxy.pod) == (expected, "10.0.0.7", "head")
        assert (proxy.pod_uid, proxy.restarts, proxy.token_secret) == ("uid of head", 2, "")


@pytest.mark.parametrize(
    ("answer", "serve", "is_asked"),
    [
        (RUNNING, "false", True),
        (EMPTY, "true", False),
        (None, "false", False),
        (None, "true", True),
    ],
)
def test_a_proxy_is_asked_once_there_are_applications(
    answer: ProbeObservation | None, serve: str, is_asked: bool
):
    seen = scene(pod("head", serve=serve), answer=answer)
    assert seen.active is not None
    assert (proxy_on(seen.active, seen.active.pods[0]) is not None) == is_asked


@pytest.mark.parametrize(
    ("head", "worker", "excluded", "accepts"),
    [
        (pod("head", serve="true"), None, False, True),
        (pod("head", serve="false"), None, False, False),
        (pod("head", serve="true", ready=False), pod("worker", serve="true"), False, False),
        (pod("head", serve="false"), pod("worker", serve="true"), True, True),
        (pod("head", serve="false"), pod("worker", serve="true", ready=False), True, False),
        (pod("head", serve="false"), pod("worker", serve="false"), True, False),
    ],
)
def test_a_cluster_accepts_requests_if_its_endpoints_are_ready(
    head: Pod, worker: Pod | None, excluded: bool, accepts: bool
):
    workers = () if worker is None else (worker,)
    seen = scene(head, *workers, excludeHeadPodFromServeSvc=excluded)
    assert seen.active is not None
    assert accepts_requests(seen, seen.active) == accepts
