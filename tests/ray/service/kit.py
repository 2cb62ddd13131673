"""RayServices with an active cluster as observations, whatever Serve and its proxies report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import yaml

from controller.apimachinery.validation import Problem
from controller.kube.objects import Pod
from controller.ray.api import RayCluster
from controller.ray.api.pod_state import is_ready
from controller.ray.api.raycluster import parse_spec
from controller.ray.api.rayservice import RayService
from controller.ray.dashboard import Head
from controller.ray.dashboard.commands import CommandOutcome
from controller.ray.dashboard.probes import ProbeObservation
from controller.ray.dashboard.serve import (
    ProxyHealth,
    ServeApplication,
    ServeDeployment,
    ServeState,
)
from controller.ray.head import HeadIncarnation
from controller.ray.service.identity import load
from controller.ray.service.observation import ACTIVE, ServiceObservation, ServingCluster, read_goal
from controller.ray.settings import RaySettings
from tests.integration.rayservices import serve_config, service_manifest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = RaySettings()
APPLICATION = yaml.safe_load(serve_config())["applications"][0]
HEALTHY = ServeDeployment("HEALTHY", target=2, running=2)


def reported(
    status: str, message: str = "", *, text: str = "", **others: ServeApplication
) -> ProbeObservation:
    """What Serve says if `hello` has this status and this text in its config; `others` besides."""
    config = APPLICATION | ({"args": {"text": text}} if text else {})
    hello = ServeApplication(status, message, {"Hello": HEALTHY}, config)
    return ProbeObservation(ServeState({"hello": hello, **others}), NOW, NOW)


RUNNING = reported("RUNNING")
EMPTY = ProbeObservation(ServeState(), NOW)
WELL = ProbeObservation(ProxyHealth(healthy=True), NOW)


def pod(
    name: str,
    *,
    serve: str,
    ready: bool = True,
    port: int | None = 8000,
    annotations: dict[str, str] | None = None,
) -> Pod:
    role = name.partition("-")[0]
    group = "headgroup" if role == "head" else "workers"
    ports = [{"name": "serve", "containerPort": port}] if port else []
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid of {name}",
                "annotations": annotations,
                "labels": {"ray.io/node-type": role, "ray.io/group": group, "ray.io/serve": serve},
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
    cluster_message: str = "",
    outcome: CommandOutcome | None = None,
    **spec: Any,
) -> ServiceObservation:
    """A RayService whose active cluster has these pods.

    Args:
        head: its head.
        workers: its workers.
        answer: what Serve reports.
        proxy: what each proxy answers that Manta asks: the head's, and with `own_readiness` all.
        own_readiness: whether the user has replaced the readiness probe of the workers.
        cluster_message: why the RayCluster is not ready; empty if it is.
        outcome: how the PUT of its config ended.
        spec: fields of the RayService.
    """
    manifest = service_manifest(**spec)
    config = manifest["spec"]["rayClusterConfig"]
    group = config["workerGroupSpecs"][0]
    group["groupName"] = "workers"
    if own_readiness:
        group["template"]["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["x"]}}
    named = manifest | {"metadata": {"name": "svc", "namespace": "default"}}
    service = msgspec.convert(named, RayService)
    goal = read_goal(service, SETTINGS)
    annotations = {} if isinstance(goal, Problem) else dict(goal.annotations)
    ready = {"type": "Ready", "status": str(not cluster_message), "message": cluster_message}
    head_ready = {"type": "HeadPodReady", "status": str(is_ready(head))}
    body = {
        "metadata": {
            "name": "svc-a",
            "namespace": "default",
            "uid": "c",
            "annotations": annotations,
        },
        "spec": config,
        "status": {"conditions": [ready, head_ready]},
    }
    cluster = msgspec.convert(body, RayCluster)
    pods = (head, *workers)
    asked = () if proxy is None else pods if own_readiness else (head,)
    serving = ServingCluster(
        "svc-a",
        ACTIVE,
        cluster,
        spec=parse_spec(cluster),
        head=HeadIncarnation(head, Head("c", head.metadata.uid, 0, "default", "svc"), "a"),
        config=load(annotations),
        answer=answer,
        put_outcome=outcome,
        pods=pods,
        proxies={each.metadata.uid: proxy for each in asked},
        excludes_head=bool(spec.get("excludeHeadPodFromServeSvc")),
    )
    status = {ACTIVE: {"rayClusterName": "svc-a"}}
    return ServiceObservation(service, goal, status, serving, now=NOW)
