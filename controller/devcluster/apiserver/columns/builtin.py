"""Columns by storage table; kinds that are not listed show name and age."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.columns import pods, services
from controller.devcluster.apiserver.columns.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    at,
    column,
    elapsed,
    field,
    joined,
    label_selector,
    template_columns,
)
from controller.devcluster.apiserver.columns.column import AGE, NAME, Column, name_of, since
from controller.devcluster.apiserver.jsondata import child, entries

if TYPE_CHECKING:
    from datetime import datetime

    from controller.devcluster.apiserver.jsondata import Json

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


def _node_address(kind: str) -> Column:
    def read(node: Json) -> str:
        addresses = entries(child(node, "status"), "addresses")
        return next((one.get("address", "") for one in addresses if one.get("type") == kind), NONE)

    return column(f"{kind.removesuffix('IP')}-IP", read, wide=True)


def _last_seen(event: Json, now: datetime) -> str:
    series = at(event, "series.lastObservedTime")
    return since(series or event.get("lastTimestamp") or event.get("eventTime"), now)


def _first_seen(event: Json, now: datetime) -> str:
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _event_object(event: Json) -> str:
    kind, name = at(event, "involvedObject.kind", ""), at(event, "involvedObject.name", "")
    return f"{kind.lower()}/{name}" if name else kind.lower()


def _event_source(event: Json) -> str:
    component = at(event, "source.component") or event.get("reportingComponent", "")
    host = at(event, "source.host") or event.get("reportingInstance", "")
    return ", ".join(filter(None, (component, host)))


def _event_count(event: Json) -> int:
    return at(event, "series.count") or event.get("count") or 1


def _job_status(job: Json) -> str:
    true = {
        one.get("type")
        for one in entries(child(job, "status"), "conditions")
        if one.get("status") == "True"
    }
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in true:
            return word
    if at(job, "metadata.deletionTimestamp"):
        return "Terminating"
    for kind, word in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if kind in true:
            return word
    return "Running"


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


def _subjects(kind: str) -> Column:
    def read(binding: Json) -> str:
        found = [one for one in entries(binding, "subjects") if one.get("kind") == kind]
        names = (
            f"{one['namespace']}/{one.get('name')}" if "namespace" in one else one.get("name", "")
            for one in found
        )
        return ", ".join(names)

    heading = "ServiceAccounts" if kind == "ServiceAccount" else f"{kind}s"
    return column(heading, read, wide=True)


def _role_reference(binding: Json) -> str:
    return f"{at(binding, 'roleRef.kind', '')}/{at(binding, 'roleRef.name', '')}"


def _controller(object_: Json) -> str:
    """Return the object's controller as kubectl names it: `statefulset.apps/web`."""
    for owner in entries(child(object_, "metadata"), "ownerReferences"):
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE


_CREATED = field("Created At", "metadata.creationTimestamp", type_="date")
_BINDINGS = (
    NAME,
    column("Role", _role_reference),
    AGE,
    _subjects("User"),
    _subjects("Group"),
    _subjects("ServiceAccount"),
)
_TEMPLATE = template_columns("spec.template.spec", "spec.selector")

BUILTIN_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": pods.COLUMNS,
    "services": services.SERVICES,
    "endpoints": services.ENDPOINTS,
    "endpointslices.discovery.k8s.io": services.ENDPOINT_SLICES,
    "configmaps": (NAME, column("Data", _data), AGE),
    "secrets": (NAME, field("Type", "type"), column("Data", _data), AGE),
    "namespaces": (NAME, field("Status", "status.phase"), AGE),
    "nodes": (
        NAME,
        column("Status", _node_status),
        column("Roles", _node_roles),
        AGE,
        field("Version", "status.nodeInfo.kubeletVersion"),
        _node_address("InternalIP"),
        _node_address("ExternalIP"),
        field("OS-Image", "status.nodeInfo.osImage", UNKNOWN, wide=True),
        field("Kernel-Version", "status.nodeInfo.kernelVersion", UNKNOWN, wide=True),
        field("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", UNKNOWN, wide=True),
    ),
    "events": (
        Column("Last Seen", _last_seen),
        field("Type", "type"),
        field("Reason", "reason"),
        column("Object", _event_object),
        field("Subobject", "involvedObject.fieldPath", wide=True),
        column("Source", _event_source, wide=True),
        column("Message", lambda event: event.get("message", "").strip()),
        Column("First Seen", _first_seen, priority=1),
        column("Count", _event_count, wide=True),
        Column("Name", name_of, format="name", priority=1),
    ),
    "jobs.batch": (
        NAME,
        column("Status", _job_status),
        column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        *_TEMPLATE,
    ),
    "deployments.apps": (
        NAME,
        column(
            "Ready",
            lambda o: f"{at(o, 'status.readyReplicas', 0)}/{at(o, 'spec.replicas', 0)}",
        ),
        field("Up-to-date", "status.updatedReplicas", 0),
        field("Available", "status.availableReplicas", 0),
        AGE,
        *_TEMPLATE,
    ),
    "replicasets.apps": (
        NAME,
        field("Desired", "spec.replicas", 0, type_="integer"),
        field("Current", "status.replicas", 0, type_="integer"),
        field("Ready", "status.readyReplicas", 0, type_="integer"),
        AGE,
        *_TEMPLATE,
    ),
    "controllerrevisions.apps": (
        NAME,
        column("Controller", _controller),
        field("Revision", "revision"),
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
    "networkpolicies.networking.k8s.io": (
        NAME,
        column("Pod-Selector", lambda o: label_selector(at(o, "spec.podSelector", {}))),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        field("Status", "status.phase"),
        field("Volume", "spec.volumeName"),
        field("Capacity", "status.capacity.storage"),
        column("Access Modes", lambda o: joined(at(o, "status.accessModes", []), "")),
        field("StorageClass", "spec.storageClassName"),
        field("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        AGE,
        field("VolumeMode", "spec.volumeMode", UNSET, wide=True),
    ),
    "roles.rbac.authorization.k8s.io": (NAME, _CREATED),
    "clusterroles.rbac.authorization.k8s.io": (NAME, _CREATED),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "customresourcedefinitions.apiextensions.k8s.io": (NAME, _CREATED),
}
