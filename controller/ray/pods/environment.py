"""What a container of Ray starts with: its command, its environment, and the draft of its pod."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, cast

from msgspec import Struct

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.quantity import ZERO, InvalidQuantity, Quantity, parse_quantity
from controller.ray.api import labels
from controller.ray.api.names import AGENT_PORT, METRICS_PORT
from controller.ray.api.pod_state import START_COMMAND
from controller.ray.head import Identity

# Builds the `ray start` command from `rayStartParams`, resources and labels.

Role = Literal["head", "worker"]
Parameters = dict[str, str]


_INTEGER: Final = re.compile(r"[0-9]{1,9}")
_MIG_DEVICE: Final = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")
_ACCELERATORS: Final = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}
_NOT_SWITCHES: Final = frozenset({"log-color", "include-dashboard", "include-log-monitor"})
_CREDENTIALS: Final = frozenset({"redis-password", "redis-username"})
VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
"""A value that is one variable of the shell."""

_OPEN_FILES: Final = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}"


def is_gpu(key: str) -> bool:
    """Return whether a resource is a GPU: `nvidia.com/gpu`, `amd.com/gpu`, a MIG slice."""
    return key.lower().endswith("gpu") or _MIG_DEVICE.search(key) is not None


def start_parameters(
    role: Role,
    *,
    given: Mapping[str, str] | None,
    resources: Mapping[str, str] | None,
    labels: Mapping[str, str] | None,
    container: Mapping[str, Any],
    head_address: str,
) -> Parameters:
    """Return all parameters of `ray start`: the user's, then the generated ones.

    Args:
        role: head or worker.
        given: the group's `rayStartParams`; they override all generated ones except `block`.
        resources: the group's `resources`, Ray's logical resources.
        labels: the group's `labels`.
        container: the Ray container; its limits supply missing values.
        head_address: `host:port` of the GCS, for workers.
    """
    parameters = dict(given or {})
    parameters.update(_from_logical_resources(resources or {}))
    if labels:
        parameters["labels"] = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    if role == "head":
        parameters.setdefault("dashboard-host", "0.0.0.0")  # noqa: S104 - other pods must reach it
    else:
        parameters.setdefault("address", head_address)
    parameters.setdefault("metrics-export-port", str(METRICS_PORT))
    parameters.setdefault("dashboard-agent-listen-port", str(AGENT_PORT))
    parameters["block"] = "true"
    _fill_from_container(parameters, container)
    return parameters


def render_start_command(role: Role, parameters: Mapping[str, str]) -> str:
    """Return `ray start ...` in KubeRay's layout: a space before and after each flag."""
    begin = "ray start --head " if role == "head" else "ray start "
    return begin + "".join(_flag(key, parameters[key]) for key in sorted(parameters))


def container_command(
    container: Mapping[str, Any], start: str, *, login_shell: bool
) -> tuple[list[str], list[str]] | None:
    """Return command and args that run the user's command, if any, and then `start`.

    None if the user's command contains `ray start`; it is not changed then.
    """
    words = [*container.get("command", ()), *container.get("args", ())]
    own = "".join(f" {word} " for word in words)
    if "ray start" in own:
        return None
    line = f"{_OPEN_FILES}; {start}"
    return shell(login=login_shell), [f"{own} && {line}" if words else line]


def shell(*, login: bool) -> list[str]:
    """Return the command of a container whose only argument is a shell script."""
    return ["/bin/bash", "-cl" if login else "-c", "--"]


def port_of(parameters: Mapping[str, str], key: str, default: int) -> int:
    """Return a port from the start parameters, ignoring a value that is not an integer."""
    given = parameters.get(key, "")
    return int(given) if _INTEGER.fullmatch(given) else default


def _flag(key: str, value: str) -> str:
    if key not in _NOT_SWITCHES:
        if value.lower() == "true":
            return f" --{key} "
        if value.lower() == "false":
            return ""
    if key in _CREDENTIALS and VARIABLE.fullmatch(value):
        value = f'"{value}"'  # a password may have spaces
    return f" --{key}={value} "


def _from_logical_resources(resources: Mapping[str, str]) -> Parameters:
    parameters: Parameters = {}
    custom: dict[str, float] = {}
    for key in sorted(resources):
        try:
            quantity = parse_quantity(resources[key])
        except InvalidQuantity:
            continue
        match key.lower():
            case "cpu":
                parameters["num-cpus"] = str(quantity.value)
            case "memory":
                parameters["memory"] = str(quantity.value)
            case _ if is_gpu(key.lower()):
                parameters["num-gpus"] = str(quantity.value)
            case _:
                custom[key] = float(quantity)
    if custom:
        parameters["resources"] = _quoted(custom)
    return parameters


def _fill_from_container(parameters: Parameters, container: Mapping[str, Any]) -> None:
    resources = container.get("resources", {})
    limits = quantities(resources.get("limits", {}))
    requests = quantities(resources.get("requests", {}))
    cpu = limits.get("cpu") or requests.get("cpu")
    if "num-cpus" not in parameters and cpu:
        parameters["num-cpus"] = str(cpu.value)
    memory = limits.get("memory")
    if "memory" not in parameters and memory:
        parameters["memory"] = str(memory.value)
    _fill_accelerators(parameters, limits)


def _fill_accelerators(parameters: Parameters, limits: Mapping[str, Quantity]) -> None:
    custom = _custom_resources(parameters.get("resources"))
    taken = custom is None or any(name in custom for name in _ACCELERATORS.values())
    for key in sorted(limits):
        if not limits[key]:
            continue
        if is_gpu(key):
            parameters.setdefault("num-gpus", str(limits[key].value))
        elif key in _ACCELERATORS and custom is not None and not taken:
            custom[_ACCELERATORS[key]] = float(limits[key].value)
            parameters["resources"] = _quoted(custom)
            taken = True


def _custom_resources(text: str | None) -> dict[str, float] | None:
    """Return the `resources` parameter as numbers; None if it is malformed and must stay."""
    if text is None:
        return {}
    try:
        value: Any = json.loads(text.strip("'\"` "))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    numbers = cast("dict[str, Any]", value)
    return numbers if all(map(_is_amount, numbers.values())) else None


def _is_amount(value: Any) -> bool:
    """Return whether it is a number that a float can hold."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def _quoted(resources: Mapping[str, float]) -> str:
    numbers = {k: int(v) if float(v).is_integer() else v for k, v in resources.items()}
    return f"'{json.dumps(numbers, sort_keys=True, separators=(',', ':'))}'"


def quantities(resources: Mapping[str, Any]) -> dict[str, Quantity]:
    """Return a container's `limits` or `requests` as numbers."""
    return {key: parse_quantity(value) for key, value in resources.items()}


def requests_of(containers: Iterable[Mapping[str, Any]]) -> dict[str, Quantity]:
    """Return what containers request together; a limit without a request is one."""
    total: dict[str, Quantity] = {}
    for container in containers:
        given = mapping(container.get("resources"))
        asked = quantities(given.get("limits") or {}) | quantities(given.get("requests") or {})
        for name in sorted(asked):
            total[name] = total.get(name, ZERO) + asked[name]
    return total


# Environment variables of Ray containers, in KubeRay's order.

_FLEET_VARIABLES: Final = {
    "MANTA_CLUSTER_INDEX": labels.CLUSTER_INDEX,
    "MANTA_CLUSTER_COUNT": labels.CLUSTER_COUNT,
}
"""Variables by the annotation of the RayCluster that has their value."""


class Environment:
    """A container's `env` under construction; the user's entries come first and are kept."""

    def __init__(self, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self._entries = [dict(entry) for entry in entries]

    def append(self, name: str, value: str) -> None:
        """Add at the end; the last entry of a name takes effect."""
        self.append_entry({"name": name, "value": value})

    def append_entry(self, entry: Mapping[str, Any]) -> None:
        """Add a whole entry at the end."""
        self._entries.append(dict(entry))

    def append_field(self, name: str, path: str) -> None:
        """Add a value that the kubelet fills in from the pod."""
        self.append_entry({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})

    def default(self, name: str, value: str) -> None:
        """Add unless there is an entry of that name."""
        self.default_entry({"name": name, "value": value})

    def default_entry(self, entry: Mapping[str, Any]) -> None:
        """Add a whole entry unless there is one of its name."""
        if all(present.get("name") != entry["name"] for present in self._entries):
            self.append_entry(entry)

    def as_list(self) -> list[dict[str, Any]]:
        """Return the entries in order."""
        return self._entries


def add_head_location(env: Environment, head_fqdn: str) -> None:
    """Add the head's address under the two names that scripts use."""
    env.append("FQ_RAY_IP", head_fqdn)
    env.append("RAY_IP", head_fqdn.split(".", 1)[0])


def add_ray_environment(
    env: Environment, role: Role, *, start: str, identity: Identity, version: str
) -> None:
    """Add the variables of every Ray container, after those of its features."""
    port, origin = identity.gcs_port, identity.origin
    if role == "worker":
        add_head_location(env, identity.head_fqdn)
    env.append_field("RAY_CLUSTER_NAME", f"metadata.labels['{labels.CLUSTER}']")
    env.append_field("RAY_CLUSTER_NAMESPACE", "metadata.namespace")
    env.append_field("RAY_CLOUD_INSTANCE_ID", "metadata.name")
    env.append_field("RAY_NODE_TYPE_NAME", f"metadata.labels['{labels.GROUP}']")
    env.append(START_COMMAND, start)
    env.default("RAY_PORT", port)
    if origin == "RayService":
        env.default("RAY_timeout_ms_task_wait_for_death_info", "0")
        env.default("RAY_gcs_server_request_timeout_seconds", "5")
        env.default("RAY_SERVE_KV_TIMEOUT_S", "5")
    host = "127.0.0.1" if role == "head" else identity.head_fqdn
    env.default("RAY_ADDRESS", f"{host}:{port}")
    env.default("RAY_USAGE_STATS_KUBERAY_IN_USE", "1")
    if role == "head":
        tags = f"kuberay_version={version};kuberay_crd={origin}"
        env.append("RAY_USAGE_STATS_EXTRA_TAGS", tags)
    env.default("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1")


def add_fleet_environment(env: Environment, annotations: Mapping[str, str]) -> None:
    """Add the index of the cluster in its RayClusterFleet, and the number of copies."""
    for name, annotation in _FLEET_VARIABLES.items():
        if annotation in annotations:
            env.default(name, annotations[annotation])


# A Ray pod under construction, to which features add fields.

Body = dict[str, Any]


class PodDraft(Struct, frozen=True):
    """A mutable pod.

    Attributes:
        body: the pod; it shares no data with other objects.
        parameters: parameters of `ray start`.
        env: variables of the Ray container, written to the body at the end.
    """

    role: Role
    body: Body
    parameters: dict[str, str]
    env: Environment

    @property
    def annotations(self) -> dict[str, str]:
        """The pod's annotations."""
        return self.body["metadata"]["annotations"]

    @property
    def spec(self) -> Body:
        """The pod's specification."""
        return self.body["spec"]

    @property
    def ray(self) -> Body:
        """The Ray container, which is always the first."""
        return self.spec["containers"][0]
