"""Creates and deletes a cluster's pods, with the events that report their success.

The names of events are KubeRay's: `CreatedHeadPod`, `DeletedWorkerPod`. `readiness_events` reports
failures: one event for a cause, not one for each pod and attempt. Where pods are lost again and
again, events do not name them, so that equal events form one series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.resources import PODS
from controller.ray.api.pod_state import group_of, is_head
from controller.ray.head.identity import HEAD_SCOPE, worker_scope
from controller.runtime.plan import Create, Delete, Event, Target

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from controller.kube.objects import Pod
    from controller.ray.cluster.observation import ClusterObservation
    from controller.runtime.plan import ReplicaMember


def pod_target(seen: ClusterObservation, name: str, scope: str) -> Target:
    """Return the target of a write to a pod of this cluster."""
    return Target(PODS, seen.cluster.metadata.namespace, name, scope)


def scope_of(pod: Pod) -> str:
    """Return the scope that counts this pod: the head, or its worker group."""
    return HEAD_SCOPE if is_head(pod) else worker_scope(group_of(pod))


def create_pod(
    seen: ClusterObservation,
    body: Mapping[str, Any],
    *,
    scope: str,
    what: str,
    member: ReplicaMember | None = None,
) -> Create:
    """Create a pod; `what` is `HeadPod` or `WorkerPod`."""
    name: str = body["metadata"]["name"]
    return Create(
        pod_target(seen, name, scope),
        body,
        member,
        on_success=Event(
            "Normal",
            f"Created{what}",
            "Create",
            "Created a pod in place of one that was lost again"
            if scope in seen.repeated_losses
            else f"Created pod {name}",
            aggregate_note="Created {count} pods",
        ),
    )


def delete_pod(seen: ClusterObservation, pod: Pod, *, what: str, reason: str) -> Delete:
    """Delete a pod; `what` is `HeadPod`, `WorkerPod` or `Pod`, `reason` a clause."""
    name, scope = pod.metadata.name, scope_of(pod)
    deleted = "a pod that was lost again" if scope in seen.repeated_losses else f"pod {name}"
    return Delete(
        pod_target(seen, name, scope),
        pod.metadata.uid,
        on_success=Event(
            "Normal",
            f"Deleted{what}",
            "Delete",
            f"Deleted {deleted} because {reason}",
            aggregate_note=f"Deleted {{count}} pods because {reason}",
        ),
    )
