"""Pods: defaults, graceful deletion, binding, and allowed changes after creation."""

from __future__ import annotations

from devcluster.apiserver.kinds.pod_specs import default_pod_spec, validate_pod_spec
from devcluster.apiserver.objects import Json, child, entries, is_name_label
from devcluster.apiserver.resources import Strategy
from devcluster.apiserver.status import (
    ResourceName,
    StatusCause,
    forbidden,
    forbidden_field,
)
from devcluster.apiserver.store import ObjectStore

PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
EVICTION_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

HOSTNAME_WARNING = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
    "a DNS label is recommended: [%s]"
)
IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)\n"
)


class PodStrategy(Strategy):
    """Pods are deleted gracefully once they are bound to a node."""

    has_status = True
    counts_generations = True
    returns_deleted = True
    is_graceful = True
    server_defaulted = frozenset(
        {("f:spec", "f:preemptionPolicy"), ("f:spec", "f:priority"), ("f:spec", "f:tolerations")}
    )

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def prepare_create(self, object_: Json) -> None:
        """Set the phase Pending and the priority of the pod's class.

        Raises:
            ApiError: 403, there is no such class.
        """
        spec: Json = object_.setdefault("spec", {})
        if name := spec.get("priorityClassName"):
            stored = self._store.table(PRIORITY_CLASSES).items.get(name)
            if stored is None:
                why = f"no PriorityClass with name {name} was found"
                pods = ResourceName("", "pods", "Pod")
                raise forbidden(pods, object_["metadata"].get("name", ""), why)
            spec["priority"] = stored.object["value"]
            spec["preemptionPolicy"] = stored.object.get("preemptionPolicy", "PreemptLowerPriority")
        object_["status"] = {"phase": "Pending", "qosClass": quality_of_service(object_)}

    def default(self, object_: Json) -> None:
        """Fill in defaults of the type and of the admission plugins that are always on."""
        spec = object_.setdefault("spec", {})
        default_pod_spec(spec)
        if spec["terminationGracePeriodSeconds"] < 0:
            spec["terminationGracePeriodSeconds"] = 1
        spec.setdefault("enableServiceLinks", True)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        spec.setdefault("priority", 0)
        status: Json = object_.setdefault("status", {})
        if status.get("podIP") and not status.get("podIPs"):
            status["podIPs"] = [{"ip": status["podIP"]}]
        tolerations: list[Json] = spec.setdefault("tolerations", [])
        for key in EVICTION_TOLERATIONS:
            if not any(_tolerates(toleration, key) for toleration in tolerations):
                tolerations.append(
                    {
                        "key": key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 300,
                    }
                )

    def warnings(self, object_: Json, old: Json | None) -> list[str]:
        """Warn of names that cannot be hostnames."""
        problems = [] if old else is_name_label(object_["metadata"]["name"])
        return [HOSTNAME_WARNING % ", ".join(problems)] if problems else []

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:
        """Validate metadata and spec."""
        causes = super().validate(object_, old)
        causes += validate_pod_spec(object_["spec"], "spec")
        if old is not None:
            causes += _validate_change(object_["spec"], old["spec"])
        return causes

    def grace_period(self, object_: Json, asked: int | None) -> int:
        """Return zero for unbound and finished pods, which are removed at once."""
        spec: Json = object_["spec"]
        phase = child(object_, "status").get("phase")
        if not spec.get("nodeName") or phase in {"Failed", "Succeeded"}:
            return 0
        return spec["terminationGracePeriodSeconds"] if asked is None else max(asked, 0)


def _validate_change(spec: Json, old: Json) -> list[StatusCause]:
    for group in ("containers", "initContainers"):
        if len(entries(spec, group)) != len(entries(old, group)):
            what = "pod updates may not add or remove containers"
            return [forbidden_field(f"spec.{group}", what)]
    causes = _added_gates(spec, old) + _changed_tolerations(spec, old)
    if _fixed_parts(spec) != _fixed_parts(old):
        causes.append(forbidden_field("spec", IMMUTABLE))
    return causes


def _changed_tolerations(spec: Json, old: Json) -> list[StatusCause]:
    """Refuse changes of tolerations other than additions and new seconds."""
    kept = [_untimed(one) for one in entries(spec, "tolerations")]
    if all(_untimed(one) in kept for one in entries(old, "tolerations")):
        return []
    why = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_field("spec.tolerations", why)]


def _untimed(toleration: Json) -> Json:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _added_gates(spec: Json, old: Json) -> list[StatusCause]:
    """Refuse added scheduling gates; they can only be removed."""
    present = [gate["name"] for gate in entries(old, "schedulingGates")]
    return [
        forbidden_field(
            "spec.schedulingGates",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for gate in entries(spec, "schedulingGates")
        if gate["name"] not in present
    ]


def _fixed_parts(spec: Json) -> Json:
    fixed = {
        name: value
        for name, value in spec.items()
        if name not in {"activeDeadlineSeconds", "schedulingGates", "tolerations"}
    }
    for group in ("containers", "initContainers"):
        fixed[group] = [
            {name: value for name, value in container.items() if name != "image"}
            for container in entries(fixed, group)
        ]
    return fixed


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key") in {key, None, ""} and toleration.get("effect") in {
        "NoExecute",
        None,
        "",
    }


def quality_of_service(pod: Json) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort`, by the containers' CPU and memory."""
    guaranteed = True
    any_set = False
    spec: Json = child(pod, "spec")
    for container in entries(spec, "containers") + entries(spec, "initContainers"):
        resources: Json = child(container, "resources")
        limits: Json = child(resources, "limits")
        requests: Json = child(resources, "requests")
        for resource in ("cpu", "memory"):
            limit, request = limits.get(resource), requests.get(resource)
            any_set = any_set or limit is not None or request is not None
            guaranteed = guaranteed and limit is not None and request in {None, limit}
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
