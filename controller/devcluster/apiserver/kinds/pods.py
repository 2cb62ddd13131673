"""Pods: defaults, graceful deletion, binding, and what may change after creation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.jsondata import Json, child, entries
from controller.devcluster.apiserver.kinds.podspec import default_pod_spec, validate_pod_spec
from controller.devcluster.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from controller.devcluster.apiserver.status import Cause

EVICTION_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class PodStrategy(Strategy):
    """Pods are deleted gracefully once they are bound to a node."""

    has_status = True
    counts_generations = True
    echoes_deleted = True

    def prepare_create(self, object_: Json) -> None:
        """A new pod is pending."""
        object_["status"] = {"phase": "Pending", "qosClass": quality_of_service(object_)}

    def default(self, object_: Json) -> None:
        """Defaults of the type and of the admission plugins that are always on."""
        spec = object_.setdefault("spec", {})
        default_pod_spec(spec)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        spec.setdefault("priority", 0)
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

    def validate(self, object_: Json, old: Json | None) -> list[Cause]:
        """Metadata and spec."""
        return super().validate(object_, old) + validate_pod_spec(object_["spec"], "spec")

    def grace_period(self, object_: Json, asked: int | None) -> int:
        """Unbound and finished pods go at once; others have their time."""
        spec: Json = object_["spec"]
        phase = child(object_, "status").get("phase")
        if not spec.get("nodeName") or phase in {"Failed", "Succeeded"}:
            return 0
        return spec["terminationGracePeriodSeconds"] if asked is None else max(asked, 0)


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key") in {key, None, ""} and toleration.get("effect") in {
        "NoExecute",
        None,
        "",
    }


def quality_of_service(pod: Json) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`, by the containers' CPU and memory."""
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
