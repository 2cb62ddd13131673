"""Disruption budgets, as an eviction meets them. There is no controller: pods are counted here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.objects import Json, child, entries, timestamp
from controller.devcluster.apiserver.selectors import LabelRequirement
from controller.devcluster.apiserver.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def check_budgets(pod: Json, budgets: Sequence[Json], pods: Sequence[Json]) -> None:
    """Check the budgets of the pod's namespace, among whose pods it is.

    Only numbers count, of `minAvailable`; without one nothing may be evicted.

    Raises:
        ApiError: 429, a budget forbids the eviction; 500, the pod has two budgets.
    """
    if child(pod, "status").get("phase") in {"Succeeded", "Failed", "Pending"}:
        return
    if pod["metadata"].get("deletionTimestamp"):
        return
    found = [each for each in budgets if _selects(each, pod)]
    if len(found) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
        raise ApiError(500, "InternalError", f"{message} does not support.")
    for budget in found:
        spec, name = child(budget, "spec"), budget["metadata"]["name"]
        healthy = sum(_is_ready(each) for each in pods if _selects(budget, each))
        needed: int = spec.get("minAvailable", healthy)
        policy = spec.get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
        if not _is_ready(pod) and (policy == "AlwaysAllow" or healthy >= needed):
            continue
        if healthy - 1 < needed:
            cause = {
                "reason": "DisruptionBudget",
                "message": f"The disruption budget {name} needs {needed} healthy pods and has "
                f"{healthy} currently",
            }
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise ApiError(429, "TooManyRequests", message, {"causes": [cause]})


def evicted(pod: Json, now: datetime) -> Json:
    """Return the pod as the API server marks it before it deletes it."""
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": timestamp(now),
    }
    status = child(pod, "status")
    kept = [each for each in entries(status, "conditions") if each["type"] != target["type"]]
    return {
        **pod,
        "metadata": dict(pod["metadata"]),
        "status": {**status, "conditions": [*kept, target]},
    }


def _selects(budget: Json, pod: Json) -> bool:
    selector = child(budget, "spec").get("selector")
    if selector is None:
        return False
    labels: dict[str, str] = child(pod, "metadata").get("labels") or {}
    rules = [
        LabelRequirement(
            rule["key"], _OPERATORS[rule["operator"]], frozenset(rule.get("values") or ())
        )
        for rule in entries(selector, "matchExpressions")
    ]
    exact: dict[str, str] = selector.get("matchLabels") or {}
    return exact.items() <= labels.items() and all(rule.matches(labels) for rule in rules)


def _is_ready(pod: Json) -> bool:
    conditions = entries(child(pod, "status"), "conditions")
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not pod["metadata"].get("deletionTimestamp")
