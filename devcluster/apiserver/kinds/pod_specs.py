"""Defaults and validation of pod specs, in pods and in templates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from controller.apimachinery.quantity import parse_quantity
from devcluster.apiserver.objects import (
    Json,
    check_name,
    child,
    entries,
    is_label,
    is_qualified_name,
    is_subdomain,
    validate_labels,
)
from devcluster.apiserver.status import (
    StatusCause,
    check_choice,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)

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


_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_KEYLESS = (
    'operator must be Exists when `key` is empty, which means "match all values and all keys"'
)
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_NOT_NEGATIVE = "must be greater than or equal to 0"
_NO_LIMIT = "Limit must be set for non overcommitable resources"
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_ENV_NAME = re.compile(r"[ -<>-~]+")
_ENV_RULE = (
    "a valid environment variable name must consist only of printable ASCII characters other than "
    "'='"
)


def validate_pod_spec(spec: Json, field: str) -> list[StatusCause]:
    """Check names and images of containers, their resources, ports, volumes and policies."""
    causes: list[StatusCause] = []
    if not spec.get("containers"):
        causes.append(required(f"{field}.containers"))
    names: set[str] = set()
    containers = {
        f"{field}.{group}[{index}]": container
        for group in ("containers", "initContainers")
        for index, container in enumerate(entries(spec, group))
    }
    for path, container in containers.items():
        causes += _validate_container(container, path, names)
    for name, allowed in _CHOICES.items():
        causes += check_choice(f"{field}.{name}", spec.get(name), allowed)
    causes += _validate_names(spec, field)
    causes += _validate_tolerations(entries(spec, "tolerations"), f"{field}.tolerations")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 1 << 31:
        detail = "must be between 1 and 2147483647, inclusive"
        causes.append(invalid_value(f"{field}.activeDeadlineSeconds", deadline, detail))
    causes += validate_labels(child(spec, "nodeSelector"), f"{field}.nodeSelector")
    causes = _validate_volumes(entries(spec, "volumes"), f"{field}.volumes") + causes
    volumes = {volume.get("name") for volume in entries(spec, "volumes")}
    for place, container in containers.items():
        for at, mount in enumerate(entries(container, "volumeMounts")):
            path = f"{place}.volumeMounts[{at}]"
            if (name := mount.get("name")) not in volumes:
                detail = f'Not found: "{name}"'
                causes.append(StatusCause("FieldValueNotFound", f"{path}.name", detail))
            if not mount.get("mountPath"):
                causes.append(required(f"{path}.mountPath"))
    return causes


def _validate_tolerations(tolerations: list[Json], field: str) -> list[StatusCause]:
    return [
        invalid_value(f"{field}[{index}].operator", one.get("operator", ""), _KEYLESS)
        for index, one in enumerate(tolerations)
        if not one.get("key") and one.get("operator") != "Exists"
    ]


def _validate_names(spec: Json, field: str) -> list[StatusCause]:
    rules = {"hostname": is_label, "subdomain": is_label, "serviceAccountName": is_subdomain}
    return [
        cause
        for name, rule in rules.items()
        if spec.get(name)
        for cause in check_name(f"{field}.{name}", spec[name], rule)
    ]


def _validate_volumes(volumes: list[Json], field: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        path = f"{field}[{index}]"
        sources = [name for name in volume if name != "name"]
        causes += [
            forbidden_field(f"{path}.{source}", "may not specify more than 1 volume type")
            for source in sorted(sources)[1:]
        ]
        causes += _validate_unique_name(volume, path, names)
    return causes


def _validate_unique_name(entry: Json, field: str, names: set[str]) -> list[StatusCause]:
    """Check that `entry` has a DNS label as its name that is not in `names`, and add it there."""
    name = entry.get("name") or ""
    field = f"{field}.name"
    if not name:
        causes = [required(field)]
    elif not (causes := check_name(field, name, is_label)) and name in names:
        causes = [duplicate(field, name)]
    names.add(name)
    return causes


def _validate_resources(resources: Json, field: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    limits, requests = child(resources, "limits"), child(resources, "requests")
    for group, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            causes += _validate_resource(name, amount, f"{field}.{group}[{name}]")
    for name in sorted(requests):
        amount, limit = parse_quantity(requests[name]).nanos, limits.get(name)
        may_exceed = _is_native(name) and not name.startswith(_HUGE_PAGES)
        if limit is None:
            if not may_exceed:
                causes.append(required(f"{field}.limits", _NO_LIMIT))
        elif not may_exceed and amount != parse_quantity(limit).nanos:
            detail = f"must be equal to {name} limit of {limit}"
            causes.append(invalid_value(f"{field}.requests", requests[name], detail))
        elif amount > parse_quantity(limit).nanos:
            detail = f"must be less than or equal to {name} limit of {limit}"
            causes.append(invalid_value(f"{field}.requests", requests[name], detail))
    named = {*limits, *requests}
    if not named & {"cpu", "memory"} and any(name.startswith(_HUGE_PAGES) for name in named):
        causes.append(forbidden_field(field, "HugePages require cpu or memory"))
    return causes


def _validate_resource(name: str, amount: str, field: str) -> list[StatusCause]:
    problems = is_qualified_name(name)
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
        problems = problems or ["must be a standard resource type or fully qualified"]
        problems.append("must be a standard resource for containers")
    elif name.startswith("requests."):
        problems.append("doesn't follow extended resource name standard")
    causes = [invalid_value(field, name, problem) for problem in problems]
    nanos = parse_quantity(amount).nanos
    if nanos < 0:
        causes.append(invalid_value(field, amount, _NOT_NEGATIVE))
    if not _is_native(name) and nanos % 10**9:
        causes.append(invalid_value(field, amount, "must be an integer"))
    return causes


def _is_native(name: str) -> bool:
    """Return whether the resource is one of Kubernetes' own, and no extended one."""
    return "/" not in name or "kubernetes.io/" in name


def _validate_env(variables: list[Json], field: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    for index, variable in enumerate(variables):
        name = variable.get("name") or ""
        if not name:
            causes.append(required(f"{field}[{index}].name"))
        elif not _ENV_NAME.fullmatch(name):
            causes.append(invalid_value(f"{field}[{index}].name", name, _ENV_RULE))
    return causes


def _validate_container(container: Json, field: str, names: set[str]) -> list[StatusCause]:
    causes = _validate_unique_name(container, field, names)
    if not container.get("image"):
        causes.append(required(f"{field}.image"))
    policy = container.get("imagePullPolicy")
    causes += check_choice(f"{field}.imagePullPolicy", policy, PULL_POLICIES)
    for index, port in enumerate(entries(container, "ports")):
        causes += _validate_port(port, f"{field}.ports[{index}]")
    causes += _validate_env(entries(container, "env"), f"{field}.env")
    return causes + _validate_resources(child(container, "resources"), f"{field}.resources")


def _validate_port(port: Json, field: str) -> list[StatusCause]:
    number = port.get("containerPort")
    if not number:
        return [required(f"{field}.containerPort")]
    if not 1 <= number <= 65535:
        detail = "must be between 1 and 65535, inclusive"
        return [invalid_value(f"{field}.containerPort", number, detail)]
    return []
