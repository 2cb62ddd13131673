"""Live pods as admission webhooks and kubelets leave them: Ray's container is not the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from controller.kube.objects import Pod

Json = dict[str, Any]

PROXY: Json = {
    "name": "istio-proxy",
    "image": "istio/proxyv2",
    "env": [{"name": "POD_NAME"}, {"name": "ISTIO_META_APP_CONTAINERS", "value": "ray-head"}],
    "ports": [{"name": "serve", "containerPort": 15090}],
    "resources": {"limits": {"cpu": "2"}},
}
RUNS: Json = {"name": "istio-proxy", "ready": True, "restartCount": 7, "state": {"running": {}}}


def _first(pod: Json) -> None:
    """`holdApplicationUntilProxyStarts` of Istio, Vault's agent, Linkerd's proxy-await."""
    pod["spec"]["containers"].insert(0, PROXY)
    pod["status"].setdefault("containerStatuses", []).insert(0, RUNS)


def _last(pod: Json) -> None:
    pod["spec"]["containers"].append(PROXY)
    pod["status"].setdefault("containerStatuses", []).append(RUNS)


def _sorted_otherwise(pod: Json) -> None:
    """The kubelet sorts statuses by name, whatever the order of the containers."""
    _first(pod)
    pod["status"]["containerStatuses"].reverse()


def _native(pod: Json) -> None:
    """A native sidecar is an init container that goes on; its state is told apart."""
    sidecar = {**PROXY, "restartPolicy": "Always"}
    pod["spec"].setdefault("initContainers", []).insert(0, sidecar)
    pod["status"].setdefault("initContainerStatuses", []).insert(0, RUNS)
    _first(pod)


def _debugged(pod: Json) -> None:
    """`kubectl debug` adds a container that no template has."""
    _first(pod)
    pod["spec"]["ephemeralContainers"] = [{"name": "debugger", "targetContainerName": "ray-head"}]
    ended = {"name": "debugger", "state": {"terminated": {"exitCode": 1}}}
    pod["status"]["ephemeralContainerStatuses"] = [ended]


WEBHOOKS: dict[str, Callable[[Json], None]] = {
    "first": _first,
    "last": _last,
    "statuses sorted otherwise": _sorted_otherwise,
    "a native sidecar too": _native,
    "being debugged": _debugged,
}


def injected(pod: Pod, how: str) -> Pod:
    """The pod, whose only container is Ray's, after a webhook and a kubelet."""
    raw: Json = msgspec.json.decode(msgspec.json.encode(pod))  # tuples become lists
    (ray,) = raw["spec"]["containers"]
    start = {"name": "KUBERAY_GEN_RAY_START_CMD", "value": "ray start --head"}
    ray["env"] = [{"name": "RAY_PORT", "value": "6379"}, start]
    WEBHOOKS[how](raw)
    return msgspec.convert(raw, Pod)
