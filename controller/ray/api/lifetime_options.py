"""Options for how pods and clusters end: the fields, and the annotations in their place.

`spec.gracefulTerminationOptions`, `spec.idleTerminationOptions` and `spec.idleSuspend` are those
that KubeRay is about to have (https://github.com/ray-project/kuberay/pull/5005 and 5210);
`spec.disruptionBudgets` is ours. Where an installed definition drops a field, an annotation holds
its JSON. It is read on a RayCluster; RayJobs and RayServices give theirs to their clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from controller.apimachinery.validation import Problem, field_or_annotation
from controller.ray.api import labels
from controller.ray.api.raycluster import (
    ClusterSpec,
    DisruptionBudgets,
    GracefulTerminationOptions,
    IdleTerminationOptions,
    RayCluster,
)

BUDGETS: Final = "spec.disruptionBudgets"
GRACE: Final = "spec.gracefulTerminationOptions"
IDLE: Final = "spec.idleTerminationOptions"
GRACE_ENABLED: Final = "ray.io/graceful-termination-enabled"
"""KubeRay's annotation for options without numbers."""

SUSPEND: Final = "Suspend"
DELETE: Final = "Delete"
SCALE_DOWN: Final = "ScaleToMinimum"

DEFAULT_GRACE: Final = 30
"""Seconds that Kubernetes gives a pod without `terminationGracePeriodSeconds`."""


# The subclasses read the annotations, from which no API server drops unknown fields.
class _Budgets(DisruptionBudgets, frozen=True, forbid_unknown_fields=True): ...


class _Grace(GracefulTerminationOptions, frozen=True, forbid_unknown_fields=True): ...


class _Idle(IdleTerminationOptions, frozen=True, forbid_unknown_fields=True): ...


def budget_options(cluster: RayCluster, spec: ClusterSpec) -> DisruptionBudgets | Problem | None:
    """Return the options of the annotation, else of the specification; None without either."""
    key = labels.DISRUPTION_BUDGETS
    remedy = (
        'write JSON such as {"workersMaxUnavailablePercent": 25}, or an empty object for the head '
        "alone"
    )
    types = (DisruptionBudgets, _Budgets)
    return field_or_annotation(
        spec.disruption_budgets, _text(cluster, key), types, _paths(BUDGETS, key), remedy
    )


def graceful_options(
    cluster: RayCluster, spec: ClusterSpec
) -> GracefulTerminationOptions | Problem | None:
    """Return the options of the annotation, else of the specification; None without either."""
    given, key = spec.graceful_termination_options, labels.GRACEFUL_TERMINATION
    remedy = 'write JSON such as {"terminationGracePeriodSeconds": 120}'
    types = (GracefulTerminationOptions, _Grace)
    found = field_or_annotation(given, _text(cluster, key), types, _paths(GRACE, key), remedy)
    if found is None and _is_true(_text(cluster, GRACE_ENABLED)):
        return GracefulTerminationOptions()
    return found


def idle_options(cluster: RayCluster, spec: ClusterSpec) -> IdleTerminationOptions | Problem | None:
    """Return the options of the annotation, else of the specification; None without either."""
    given, key = spec.idle_termination_options, labels.IDLE_TERMINATION
    remedy = 'write JSON such as {"timeoutSeconds": 3600, "policy": "Suspend"}'
    types = (IdleTerminationOptions, _Idle)
    return field_or_annotation(given, _text(cluster, key), types, _paths(IDLE, key), remedy)


def is_idle_suspended(cluster: RayCluster, spec: ClusterSpec) -> bool:
    """Return whether the cluster is suspended because nobody used it, by field or annotation."""
    return bool(spec.idle_suspend) or _is_true(_text(cluster, labels.IDLE_SUSPEND))


def grace_of(pod_spec: dict[str, Any], options: GracefulTerminationOptions) -> int:
    """Return the grace period of a pod in seconds: the template's, else that of the options."""
    own = pod_spec.get("terminationGracePeriodSeconds")
    if isinstance(own, int):
        return own
    return options.termination_grace_period_seconds or DEFAULT_GRACE


def late_deadlines(
    options: GracefulTerminationOptions | None, templates: dict[str, dict[str, Any]]
) -> Iterator[Problem]:
    """Yield a problem for each template whose pods are killed before their drain may end."""
    if options is None or options.drain_deadline_seconds is None:
        return
    deadline = options.drain_deadline_seconds
    for path, pod_spec in templates.items():
        grace = grace_of(pod_spec, options)
        if deadline > grace:
            yield Problem(
                f"{GRACE}.drainDeadlineSeconds",
                f"is {deadline}, and {path} has a grace period of {grace} s, after which pods are "
                "killed; raise terminationGracePeriodSeconds or lower drainDeadlineSeconds",
            )


def _text(cluster: RayCluster, annotation: str) -> str:
    return (cluster.metadata.annotations or {}).get(annotation, "")


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _paths(field: str, annotation: str) -> tuple[str, str]:
    return field, f"metadata.annotations[{annotation}]"
