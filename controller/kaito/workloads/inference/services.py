"""The two services of a model server: one for requests, one that gives pods their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.api import labels
from controller.kaito.api.options import Runtime
from controller.kaito.presets import RAY_PORT
from controller.kaito.workloads.identity import child, headless_service_name
from controller.kaito.workloads.inference.preset import KV_EVENTS_PORT
from controller.kaito.workloads.inference.server import SERVER_PORT
from controller.kube.resources import SERVICES

if TYPE_CHECKING:
    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.workloads.pods.pod_parts import Body
    from controller.kube.objects import ObjectMeta

_DASHBOARD_PORT: Final = 8265
_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"


def services(workspace: ObjectMeta, options: KaitoOptions) -> tuple[Body, Body]:
    """Return both bodies. A service is created if it is missing and never changed, as in Kaito."""
    return _request_service(workspace, options), _headless_service(workspace)


def _request_service(workspace: ObjectMeta, options: KaitoOptions) -> Body:
    """Return the service that leads to the first pod, which serves for all of them."""
    annotations = workspace.annotations or {}
    is_public = annotations.get(labels.ENABLE_LOAD_BALANCER) == "True"
    ports = [
        _port("http", 80, SERVER_PORT),
        _port("ray", RAY_PORT, RAY_PORT),
        _port("dashboard", _DASHBOARD_PORT, _DASHBOARD_PORT),
    ]
    if options.runtime(annotations) is Runtime.VLLM and not is_public:
        ports.append(_port("kv-events", KV_EVENTS_PORT, KV_EVENTS_PORT))
    selector = {labels.WORKSPACE: workspace.name, _POD_NAME: f"{workspace.name}-0"}
    return {
        **child(SERVICES, workspace, workspace.name),
        "spec": {
            "type": "LoadBalancer" if is_public else "ClusterIP",
            "ports": ports,
            "selector": selector,
            "publishNotReadyAddresses": True,
        },
    }


def _headless_service(workspace: ObjectMeta) -> Body:
    return {
        **child(SERVICES, workspace, headless_service_name(workspace.name)),
        "spec": {
            "clusterIP": "None",
            "selector": {labels.WORKSPACE: workspace.name},
            "publishNotReadyAddresses": True,
        },
    }


def _port(name: str, port: int, target: int) -> Body:
    return {"name": name, "protocol": "TCP", "port": port, "targetPort": target}
