"""Builds the `ray start` command from `rayStartParams`, resources and labels."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from controller.apimachinery.quantity import InvalidQuantity, Quantity, parse_quantity
from controller.ray.api.ports import AGENT_PORT, METRICS_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping

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
