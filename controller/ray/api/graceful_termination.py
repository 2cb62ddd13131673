"""How much time pods get when they are taken away: the field, and the annotations in its place.

`spec.gracefulTerminationOptions` is the one that KubeRay is about to have
(https://github.com/ray-project/kuberay/pull/5005), and `ray.io/graceful-termination-enabled` its
annotation without numbers. Where an installed definition drops the field, an annotation of ours
holds its JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.problem import Problem
from controller.apimachinery.template import field_or_annotation
from controller.ray.api import labels
from controller.ray.api.raycluster import GracefulTerminationOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.raycluster import ClusterSpec, RayCluster

FIELD: Final = "spec.gracefulTerminationOptions"
ANNOTATION: Final = f"metadata.annotations[{labels.GRACEFUL_TERMINATION}]"
ENABLED: Final = "ray.io/graceful-termination-enabled"
DEFAULT_GRACE: Final = 30
"""Seconds that Kubernetes gives a pod without `terminationGracePeriodSeconds`."""
_REMEDY: Final = 'write JSON such as {"terminationGracePeriodSeconds": 120}'


class _Annotated(GracefulTerminationOptions, frozen=True, forbid_unknown_fields=True):
    """The annotation's JSON, from which no API server drops unknown fields."""


def graceful_options(
    cluster: RayCluster, spec: ClusterSpec
) -> GracefulTerminationOptions | Problem | None:
    """Return the options of the annotation, else of the specification; None without either."""
    annotations = cluster.metadata.annotations or {}
    text = annotations.get(labels.GRACEFUL_TERMINATION, "")
    types = (GracefulTerminationOptions, _Annotated)
    given = spec.graceful_termination_options
    found = field_or_annotation(given, text, types, (FIELD, ANNOTATION), _REMEDY)
    is_enabled = annotations.get(ENABLED, "").strip().lower() == "true"
    return GracefulTerminationOptions() if found is None and is_enabled else found


def grace_of(pod_spec: dict[str, Any], options: GracefulTerminationOptions) -> int:
    """Return the grace period of a pod: the template's, else that of the options."""
    own = pod_spec.get("terminationGracePeriodSeconds")
    if isinstance(own, int):
        return own
    return options.termination_grace_period_seconds or DEFAULT_GRACE


def late_deadlines(
    options: GracefulTerminationOptions | None, templates: dict[str, dict[str, Any]]
) -> Iterator[Problem]:
    """Yield a problem for each template whose pods are killed before their drain may end.

    Args:
        options: of the cluster.
        templates: pod specifications by their path.
    """
    if options is None or options.drain_deadline_seconds is None:
        return
    deadline = options.drain_deadline_seconds
    for path, pod_spec in templates.items():
        grace = grace_of(pod_spec, options)
        if deadline > grace:
            yield Problem(
                f"{FIELD}.drainDeadlineSeconds",
                f"is {deadline}, and {path} has a grace period of {grace} s, after which pods are "
                "killed; raise terminationGracePeriodSeconds or lower drainDeadlineSeconds",
            )
