"""Columns that `kubectl get` prints for built-in kinds; those not listed show name and age."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from controller.devcluster.apiserver.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    at,
    column,
    elapsed,
    field,
    joined,
    since,
)
from controller.devcluster.apiserver.objects import Json, child, entries


class PodSummary(NamedTuple):
    """A pod's columns.

    Attributes:
        status: the word in the STATUS column.
    """

    status: str
    ready: int
    restarts: int
    restarted: str | None


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
    if at(pod, "metadata.deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in {"Failed", "Succeeded"}:
            reason = "Terminating"
    finished: list[str | None] = [at(one, "lastState.terminated.finishedAt") for one in counted]
    return PodSummary(
        reason,
        sum(bool(one.get("ready")) and "running" in child(one, "state") for one in statuses),
        sum(one.get("restartCount", 0) for one in counted),
        max(filter(None, finished), default=None),
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


def _restarts(pod: Json, now: datetime) -> str:
    short = summary(pod)
    if not short.restarts or not short.restarted:
        return str(short.restarts)
    return f"{short.restarts} ({since(short.restarted, now)} ago)"


COLUMNS = (
    NAME,
    column("Ready", _ready),
    column("Status", lambda pod: summary(pod).status),
    Column("Restarts", _restarts),
    AGE,
    column("IP", lambda pod: at(pod, "status.podIP", "") or NONE, wide=True),
    column("Node", lambda pod: at(pod, "spec.nodeName", "") or NONE, wide=True),
)


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


def _cluster_address(service: Json) -> str:
    return child(service, "spec").get("clusterIP") or NONE


SERVICES = (
    NAME,
    field("Type", "spec.type"),
    column("Cluster-IP", _cluster_address),
    column("External-IP", _external),
    column("Port(s)", _ports),
    AGE,
)
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
    return elapsed(at(job, "status.startTime"), at(job, "status.completionTime"), now)


def _rules_hosts(ingress: Json) -> str:
    hosts = [rule.get("host", "") for rule in entries(child(ingress, "spec"), "rules")]
    return joined(filter(None, hosts), "*")


def _ingress_addresses(ingress: Json) -> str:
    found = entries(child(child(ingress, "status"), "loadBalancer"), "ingress")
    return joined((one.get("ip") or one.get("hostname", "") for one in found), "")


BUILTIN_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": COLUMNS,
    "services": SERVICES,
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
    "replicasets.apps": (
        NAME,
        field("Desired", "spec.replicas", 0, type_="integer"),
        field("Current", "status.replicas", 0, type_="integer"),
        field("Ready", "status.readyReplicas", 0, type_="integer"),
        AGE,
    ),
    "leases.coordination.k8s.io": (NAME, field("Holder", "spec.holderIdentity"), AGE),
    "ingresses.networking.k8s.io": (
        NAME,
        field("Class", "spec.ingressClassName", NONE),
        column("Hosts", _rules_hosts),
        column("Address", _ingress_addresses),
        column("Ports", lambda o: "80, 443" if at(o, "spec.tls") else "80"),
        AGE,
    ),
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
