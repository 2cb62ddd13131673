"""Defaults of pod specs in pods and templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.jsondata import Json, child, entries

if TYPE_CHECKING:
    from collections.abc import Iterator

_POD_DEFAULTS: Json = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER_DEFAULTS: Json = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE_DEFAULTS: Json = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_VOLUME_MODES = ("secret", "configMap", "projected", "downwardAPI")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_pod_spec(spec: Json) -> None:
    """Fill in the type's defaults, in place."""
    for name, value in _POD_DEFAULTS.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    for container in _containers(spec):
        _default_container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in entries(spec, "volumes"):
        _default_volume(volume)


def _containers(spec: Json) -> Iterator[Json]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(group) or []


def _default_container(container: Json, *, host_network: bool) -> None:
    for name, value in _CONTAINER_DEFAULTS.items():
        container.setdefault(name, value)
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image") or "")
    resources: Json = container.setdefault("resources", {})
    if resources.get("limits"):
        resources["requests"] = resources["limits"] | child(resources, "requests")
    for port in entries(container, "ports"):
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort"))
    _default_probes(container)
    for variable in entries(container, "env"):
        reference = child(variable, "valueFrom").get("fieldRef")
        if reference:
            reference.setdefault("apiVersion", "v1")


def _default_probes(container: Json) -> None:
    for probe in filter(None, map(container.get, _PROBES)):
        for name, value in _PROBE_DEFAULTS.items():
            probe.setdefault(name, value)
        _default_handler(probe)
    for moment in ("postStart", "preStop"):
        _default_handler(child(child(container, "lifecycle"), moment))


def _default_handler(handler: Json) -> None:
    if get := handler.get("httpGet"):
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")
    if "grpc" in handler:
        handler["grpc"].setdefault("service", "")


def _pull_policy(image: str) -> str:
    last = image.rpartition("/")[2]
    if not image or "@" in last:
        return "IfNotPresent"
    tag = last.partition(":")[2]
    return "Always" if tag in {"", "latest"} else "IfNotPresent"


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for source in _VOLUME_MODES:
        if source in volume:
            volume[source].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in entries(child(volume, "projected"), "sources"):
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
