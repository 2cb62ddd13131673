"""Who has changed or deleted an object of ours, as far as the object tells.

A field manager is all that the API server keeps of a writer. It names nobody who deletes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.custom_object import mapping
from controller.ray.api.pod_state import condition
from controller.ray.diagnosis import reasons
from controller.ray.diagnosis.pod import HEAD, ITS_REPLACEMENT, component_of_pod, diagnose_pod
from controller.ray.diagnosis.reasons import Cause
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kube.objects import ObjectMeta, Pod
    from controller.ray.api.raycluster import RayCluster


_OURS: Final = ("manta", "kuberay-operator")
"""Beginnings of the field managers of operators of Ray, which suspend no cluster by themselves."""

_PRUNERS: Final = (
    ("argocd.argoproj.io/", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/", "Flux"),
    ("helm.toolkit.fluxcd.io/", "Flux"),
    ("app.kubernetes.io/instance", "Argo CD or another tool that tracks by this label"),
)
"""Labels and annotations by which GitOps tools recognise what they may prune, with the tool."""


def suspension_of(cluster: RayCluster, *, owner_asks: bool = True) -> str:
    """Return a clause about who has set `spec.suspend` of a RayCluster; empty if unknown.

    Args:
        cluster: the RayCluster.
        owner_asks: whether its owner, if it has one, may ask for it.
    """
    managers = cluster.metadata.managed_fields
    entries = [each for each in managers if each.owns_suspend and each.manager]
    last = max(entries, key=lambda each: each.time or "", default=None)
    if last is None:
        return ""
    what = f"{last.operation or 'Update'}{f' at {last.time}' if last.time else ''}"
    if last.manager.startswith(_OURS):
        if owner_asks and (owner := cluster.metadata.controller):
            return f"set for {owner.kind} {owner.name}, or by an admission webhook ({what})"
        return f"an admission webhook set it when {last.manager} wrote the RayCluster ({what})"
    return f"set by {last.manager} ({what})"


def suspended_by_others(cluster: RayCluster | None, owner: str, *, asked: bool) -> str:
    """Return a sentence about a child that is suspended although its owner is not; else empty.

    Args:
        cluster: the child.
        owner: kind of its owner.
        asked: whether the owner's specification asks for it.
    """
    if cluster is None or asked or mapping(cluster.spec).get("suspend") is not True:
        return ""
    author = suspension_of(cluster, owner_asks=False) or "the API server does not tell who set it"
    return (
        f"spec.suspend of RayCluster {cluster.metadata.name} is true, which this {owner} does not "
        f"ask for: {author}; stop what sets it, or set it to false on the RayCluster"
    )


def deleted_by_others(owner: ObjectMeta, what: str) -> str:
    """Return a clause about a child that somebody else has deleted.

    Args:
        owner: metadata of its owner, from which it had labels and annotations.
        what: the child, as the beginning of the clause.
    """
    found = {**(owner.labels or {}), **(owner.annotations or {})}
    for key in sorted(found):
        for prefix, tool in _PRUNERS:
            if key.startswith(prefix):
                return (
                    f"{what} was deleted by somebody else; it had {key} from this object, by which "
                    f"{tool} prunes: exclude RayClusters there"
                )
    return f"{what} was deleted by somebody else; the audit log of the API server names the client"


def created_cluster(owner: ObjectMeta, name: str, *, again: bool) -> Event:
    """Return the event about a new RayCluster; `again` is whether there was one of this name."""
    note = f"Created RayCluster {name}"
    if again:
        note = f"{note}, because {deleted_by_others(owner, 'the one before')}"
    return Event("Warning" if again else "Normal", "CreatedRayCluster", "Create", note)


# Diagnoses pods that are lost again and again, so that their replacements are delayed.
#
# The condition `DisruptionTarget` of a pod names what evicted it. A plain deletion leaves no trace
# but the API server's audit log.

_DISRUPTIONS: Final = {
    "EvictionByEvictionAPI": (
        "was evicted through the API, as a drained node's pods are",
        "wait for the end of the drain, or stop the client that evicts it",
    ),
    "PreemptionByScheduler": (
        "was preempted by the scheduler for a pod of higher priority",
        "give its template a higher priorityClassName, or add nodes",
    ),
    "DeletionByTaintManager": (
        "was deleted because of a taint of its node",
        "repair the node, or let the template tolerate the taint",
    ),
    "DeletionByPodGC": ("was deleted because its node is gone", "keep the nodes"),
    "TerminationByKubelet": ("was terminated by the kubelet of its node", "repair the node"),
}
"""The fate of the pod and the remedy, by the reasons of its condition `DisruptionTarget`."""

_DELETED: Final = (
    "was deleted by another client",
    (
        "the audit log of the API server names the client that deleted it or, so that the garbage "
        "collector did, changed its owner reference; stop it"
    ),
)


def lost_pod_cause(pod: Pod, rounds: int, next_try: datetime, now: datetime) -> Cause:
    """Return the cause for a head or a group that has lost pods `rounds` times in a row.

    Args:
        pod: the last lost pod, in its last observed state.
        rounds: number of losses, more than one.
        next_try: time at which the lost pods are replaced.
        now: the time.
    """
    outlook = (
        f"pods were lost {rounds} times in a row soon after they were made, so that they are not "
        f"replaced before {rfc3339(next_try)}"
    )
    if pod.metadata.terminating or pod.status.phase not in {"Failed", "Succeeded"}:
        return _deletion(pod, outlook)
    cause = diagnose_pod(pod, now, head_ready=False)
    assert cause is not None  # one that has ended is not ready
    said = cause.detail.removesuffix(ITS_REPLACEMENT)
    return replace(cause, detail=f"{said}; {outlook}", age="")


def _deletion(pod: Pod, outlook: str) -> Cause:
    target = condition(pod, "DisruptionTarget")
    fate, remedy = _DISRUPTIONS.get(target.reason if target else "", _DELETED)
    detail = f" ({target.reason}: {target.message})" if target else ""
    component = component_of_pod(pod)
    return Cause(
        reasons.POD_DELETED,
        component,
        f"pod {pod.metadata.name} {fate}{detail}; {outlook}; {remedy}",
        blocks_head=component == HEAD,
    )
