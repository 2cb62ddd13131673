"""Columns that `kubectl get` prints: of definitions, of built-in kinds; ages in its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

from msgspec import Struct

from devcluster.apiserver.objects import Json, child, entries


class Column(Struct, frozen=True):
    """One column.

    Attributes:
        type: `string`, `integer`, `number`, `boolean` or `date`.
        format: `name` for the object's name, else empty.
        priority: 0 is always shown, others only with `-o wide`.
    """

    name: str
    read: Callable[[Json, datetime], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Json:
        """Return the entry for `columnDefinitions`."""
        shown = ("name", "type", "format", "description", "priority")
        return {name: getattr(self, name) for name in shown}


def since(moment: str | None, now: datetime) -> str:
    """Return the age of a timestamp."""
    if not moment:
        return "<unknown>"
    return duration((now - datetime.fromisoformat(moment)).total_seconds())


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


_AGES = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
"""Upper bound in seconds, unit, its name, smaller unit printed beside it (0 for none), its name."""


def duration(seconds: float) -> str:
    """Return seconds as kubectl prints ages: two units at most, ever coarser."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    total = max(total, 0)
    for bound, large, name, small, small_name in _AGES:
        if total < bound:
            rest = total % large // small if small else 0
            return f"{total // large}{name}" + (f"{rest}{small_name}" if rest else "")
    return f"{total // _YEAR}y"


NAME = Column("Name", lambda object_, _: object_["metadata"]["name"], format="name")
AGE = Column("Age", lambda object_, now: since(at(object_, "metadata.creationTimestamp"), now))
NONE = "<none>"


def at(object_: Any, path: str, default: Any = None) -> Any:
    """Return the value at a dotted path, or the default."""
    value = object_
    for part in path.split("."):
        value = cast("Json", value).get(part) if isinstance(value, dict) else None
    return default if value is None else value


def column(name: str, read: Callable[[Json], Any], *, wide: bool = False) -> Column:
    """Return a column whose cells do not depend on the time."""
    return Column(name, lambda object_, _: read(object_), priority=int(wide))


def field(name: str, path: str, default: Any = "") -> Column:
    """Return a column that shows one field as it is."""
    return column(name, lambda object_: at(object_, path, default))


def joined(items: Iterable[Any], empty: str = NONE) -> str:
    """Join items with commas."""
    return ",".join(map(str, items)) or empty


# Columns of definitions, and the part of JSONPath that they use.


Step: TypeAlias = "str | int | tuple[str, str] | None"

_STEP = re.compile(
    r"\.(?P<member>(?:[^.\[\]\\]|\\.)+)"
    r"|\[\s*(?P<index>-?\d+)\s*\]"
    r"|(?P<all>\[\*\])"
    r"|\[\?\(\s*@(?P<path>(?:\.[^.\s=\[\]]+)+)\s*==\s*(?P<quote>[\"'])(?P<value>.*?)(?P=quote)\s*\)\]"
)


class PathError(ValueError):
    """The path uses unsupported syntax."""


@lru_cache(maxsize=512)
def parse(path: str) -> tuple[Step, ...]:
    """Parse a path into member names, indexes, None for all items, or filters.

    Raises:
        PathError: unsupported syntax.
    """
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise PathError(f"unsupported JSON path {path!r} at character {position}")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    found = match.groupdict()
    if found["all"]:
        return None
    if found["member"] is not None:
        return re.sub(r"\\(.)", r"\1", found["member"])
    if found["index"] is not None:
        return int(found["index"])
    return found["path"].removeprefix("."), found["value"]


def find(object_: Any, path: str) -> list[Any]:
    """Return all values at a path, in order."""
    values: list[Any] = [object_]
    for step in parse(path):
        values = [found for value in values for found in _follow(value, step)]
    return values


def _follow(value: Any, step: Step) -> list[Any]:
    if isinstance(step, str):
        return [cast("Json", value)[step]] if isinstance(value, dict) and step in value else []
    items = cast("list[Any]", value) if isinstance(value, list) else []
    if step is None:
        return items
    if isinstance(step, int):
        return [items[step]] if -len(items) <= step < len(items) else []
    path, wanted = step
    return [item for item in items if str(at(item, path)) == wanted]


DATE = Column("Age", AGE.read, type="date")
"""The only column besides the name where a definition has none."""


def custom_columns(version: Json) -> tuple[Column, ...]:
    """Return the columns of one version of a definition.

    Raises:
        PathError: a column's path is not supported.
    """
    return tuple(
        Column(
            column["name"],
            _reader(column["jsonPath"], column.get("type", "string")),
            type=column.get("type", "string"),
            format=column.get("format", ""),
            description=column.get("description")
            or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
            priority=column.get("priority", 0),
        )
        for column in entries(version, "additionalPrinterColumns")
    )


def _reader(path: str, kind: str) -> Callable[[Json, datetime], Any]:
    parse(path)

    def read(object_: Json, now: datetime) -> Any:
        values = find(object_, path)
        if not values:
            return None
        return _cell(values[0], kind, now)

    return read


def _cell(value: Any, kind: str, now: datetime) -> Any:
    if kind == "date":
        try:
            return since(value, now)
        except (TypeError, ValueError, AttributeError):
            return "<invalid>"
    if kind in {"integer", "number"}:
        return value if isinstance(value, (int, float)) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value is not None else None


# Columns of built-in kinds.


class PodSummary(NamedTuple):
    """A pod's columns.

    Attributes:
        status: the word in the STATUS column.
    """

    status: str
    ready: int
    restarts: int


def summary(pod: Json) -> PodSummary:
    """Compute the short form of a pod."""
    status = child(pod, "status")
    reason = status.get("reason") or status.get("phase", "")
    waiting_for_init = _initializing(pod)
    statuses = entries(status, "containerStatuses")
    counted = statuses
    if waiting_for_init and not _has_condition(pod, "Initialized"):
        reason, counted = waiting_for_init, entries(status, "initContainerStatuses")
    else:
        reason = _container_reason(statuses, reason, ready=_has_condition(pod, "Ready"))
    if at(pod, "metadata.deletionTimestamp") and status.get("phase") not in {"Failed", "Succeeded"}:
        reason = "Terminating"
    return PodSummary(
        reason,
        sum(bool(one.get("ready")) and "running" in child(one, "state") for one in statuses),
        sum(one.get("restartCount", 0) for one in counted),
    )


def _has_condition(pod: Json, kind: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in entries(child(pod, "status"), "conditions")
    )


def _ended(terminated: Json) -> str:
    if terminated.get("reason"):
        return terminated["reason"]
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: Json) -> str:
    """Return the status of the first init container that is not done; empty if all are."""
    total = len(entries(child(pod, "spec"), "initContainers"))
    for index, one in enumerate(entries(child(pod, "status"), "initContainerStatuses")):
        terminated, waiting = at(one, "state.terminated"), at(one, "state.waiting.reason")
        if terminated is not None:
            if terminated.get("exitCode", 0) == 0:
                continue
            return f"Init:{_ended(terminated)}"
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{total}"
    return ""


def _container_reason(statuses: list[Json], reason: str, *, ready: bool) -> str:
    running = False
    for one in reversed(statuses):
        terminated, waiting = at(one, "state.terminated"), at(one, "state.waiting.reason")
        if waiting:
            reason = waiting
        elif terminated is not None:
            reason = _ended(terminated)
        elif one.get("ready") and "running" in child(one, "state"):
            running = True
    if reason == "Completed" and running:
        return "Running" if ready else "NotReady"
    return reason


def _ready(pod: Json) -> str:
    return f"{summary(pod).ready}/{len(entries(child(pod, 'spec'), 'containers'))}"


def _external(service: Json) -> str:
    spec = child(service, "spec")
    addresses = entries(spec, "externalIPs")
    if spec.get("type") != "LoadBalancer":
        return joined(addresses)
    ingress = entries(child(child(service, "status"), "loadBalancer"), "ingress")
    found = [entry.get("ip") or entry.get("hostname", "") for entry in ingress]
    return joined([*found, *addresses], "<pending>")


def _ports(service: Json) -> str:
    shown: list[str] = []
    for port in entries(child(service, "spec"), "ports"):
        number = f"{port.get('port')}:{port['nodePort']}" if "nodePort" in port else port["port"]
        shown.append(f"{number}/{port.get('protocol', 'TCP')}")
    return joined(shown)


_ROLE = "node-role.kubernetes.io/"


def _data(object_: Json) -> int:
    return len(child(object_, "data")) + len(child(object_, "binaryData"))


def _node_status(node: Json) -> str:
    conditions = entries(child(node, "status"), "conditions")
    ready = [one.get("status") for one in conditions if one.get("type") == "Ready"]
    words = [("Ready" if ready[0] == "True" else "NotReady") if ready else "Unknown"]
    if at(node, "spec.unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: Json) -> str:
    labels = child(child(node, "metadata"), "labels")
    return joined(sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)))


def _last_seen(event: Json, now: datetime) -> str:
    series = at(event, "series.lastObservedTime")
    return since(series or event.get("lastTimestamp") or event.get("eventTime"), now)


def _event_object(event: Json) -> str:
    kind, name = at(event, "involvedObject.kind", ""), at(event, "involvedObject.name", "")
    return f"{kind.lower()}/{name}" if name else kind.lower()


def _job_status(job: Json) -> str:
    true = {
        one.get("type")
        for one in entries(child(job, "status"), "conditions")
        if one.get("status") == "True"
    }
    if at(job, "metadata.deletionTimestamp"):
        true.add("Terminating")
    order = (
        "Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet"
    )  # fmt: skip
    return next((kind for kind in order if kind in true), "Running")


def _job_completions(job: Json) -> str:
    done, wanted = at(job, "status.succeeded", 0), at(job, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = at(job, "spec.parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Json, now: datetime) -> str:
    start, end = at(job, "status.startTime"), at(job, "status.completionTime")
    return since(start, datetime.fromisoformat(end) if end else now) if start else ""


BUILTIN_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        NAME,
        column("Ready", _ready),
        column("Status", lambda pod: summary(pod).status),
        column("Restarts", lambda pod: str(summary(pod).restarts)),
        AGE,
        column("IP", lambda pod: at(pod, "status.podIP", "") or NONE, wide=True),
        column("Node", lambda pod: at(pod, "spec.nodeName", "") or NONE, wide=True),
    ),
    "services": (
        NAME,
        field("Type", "spec.type"),
        column("Cluster-IP", lambda service: at(service, "spec.clusterIP") or NONE),
        column("External-IP", _external),
        column("Port(s)", _ports),
        AGE,
    ),
    "configmaps": (NAME, column("Data", _data), AGE),
    "secrets": (NAME, field("Type", "type"), column("Data", _data), AGE),
    "namespaces": (NAME, field("Status", "status.phase"), AGE),
    "nodes": (
        NAME,
        column("Status", _node_status),
        column("Roles", _node_roles),
        AGE,
        field("Version", "status.nodeInfo.kubeletVersion"),
    ),
    "events": (
        Column("Last Seen", _last_seen),
        field("Type", "type"),
        field("Reason", "reason"),
        column("Object", _event_object),
        column("Message", lambda event: event.get("message", "").strip()),
    ),
    "jobs.batch": (
        NAME,
        column("Status", _job_status),
        column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
    ),
    "deployments.apps": (
        NAME,
        column(
            "Ready", lambda o: f"{at(o, 'status.readyReplicas', 0)}/{at(o, 'spec.replicas', 0)}"
        ),
        field("Up-to-date", "status.updatedReplicas", 0),
        field("Available", "status.availableReplicas", 0),
        AGE,
    ),
    "leases.coordination.k8s.io": (NAME, field("Holder", "spec.holderIdentity"), AGE),
    "persistentvolumeclaims": (
        NAME,
        field("Status", "status.phase"),
        field("Volume", "spec.volumeName"),
        field("Capacity", "status.capacity.storage"),
        column("Access Modes", lambda o: joined(at(o, "status.accessModes", []), "")),
        field("StorageClass", "spec.storageClassName"),
        AGE,
    ),
}
