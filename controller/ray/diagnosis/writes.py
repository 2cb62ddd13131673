"""Causes in writes: why the API server rejects ours, and who else changes or deletes objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.custom_object import mapping, mappings
from controller.apimachinery.quantity import parse_quantity
from controller.kube.objects import ObjectMeta, Pod
from controller.kube.resources import CERTIFICATES, INGRESSES, ISSUERS, PODS, ROUTES
from controller.ray.api.names import AUTOSCALER, KUBERAY_NOUNS, SUBMITTER, EventNouns, event_noun
from controller.ray.api.pod_state import condition
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.diagnosis.pod import HEAD, ITS_REPLACEMENT, component_of_pod, diagnose_pod
from controller.ray.diagnosis.reasons import POD_DELETED, Cause
from controller.ray.head import HEAD_SCOPE, SERVE_LABEL_SCOPE, worker_scope
from controller.ray.pods.features import WAIT_CONTAINER
from controller.runtime import reasons
from controller.runtime.plan import Create, Event, Failure, Target, Write, verb_of
from controller.runtime.reasons import Reason, refusal_of, refused_create, remedy_of, with_remedy
from controller.runtime.record import Record

_METADATA: Final = re.compile(r"metadata\.(annotations|labels)\b")
_REMEDIES: Final = {reasons.QUOTA_EXCEEDED: "ask for a larger quota or lower replicas"}
_INJECTED: Final = {
    WAIT_CONTAINER: (
        f"give the pod template an init container {WAIT_CONTAINER} that has only other resources"
    ),
    AUTOSCALER: "set spec.autoscalerOptions.resources",
    SUBMITTER: f"give the head's template a container {SUBMITTER} that has only other resources",
}
"""How users size the containers that the operator adds."""

_BOUND: Final = re.compile(
    r"(?:minimum|maximum) (\S+) usage per Container is \S+ but (request|limit) is ([^\s,\]]+)"
)


def failure_cause(failure: Failure, *, has_head: bool, nouns: EventNouns = KUBERAY_NOUNS) -> Cause:
    """Return the cause that a failed write shows.

    Args:
        failure: the write and the server's response.
        has_head: whether there is a head; if not, every child that pods depend on blocks it.
        nouns: nouns of the kind that planned the write, for the reason of the event.
    """
    target = failure.write.target
    component = component_of_target(target)
    reason = refusal_of(failure)
    detail = f"{_what_failed(failure.write)}: {_stable(failure)}"
    return Cause(
        reason,
        component,
        failure.message
        if reason is reasons.REPEATEDLY_DELETED
        else with_remedy(
            detail, _of_metadata(failure) or remedy_of(failure, _REMEDIES | _sizing(failure))
        ),
        blocks_head=component == HEAD or not (has_head or target.resource is PODS),
        event=_event_reason(failure.write, nouns),
    )


def refused_creates(
    record: Record, targets: Iterable[Target], owner: Mapping[str, Any]
) -> tuple[Failure, ...]:
    """Return the failures of earlier creates of these objects that the server has refused.

    Args:
        record: what the process remembers of their owner.
        targets: the objects.
        owner: reference to their owner, whose labels and annotations they have.
    """
    errors = (
        (each, record.create_error(each.resource, f"{each.namespace}/{each.name}"))
        for each in targets
    )
    return tuple(refused_create(each, error, owner) for each, error in errors if error is not None)


def _of_metadata(failure: Failure) -> str:
    """Return the remedy for labels and annotations that no template has; empty for all else.

    A cluster, an ingress and a route have those of their owner.
    """
    write, found = failure.write, _METADATA.search(failure.message)
    target = write.target
    if found is None or refusal_of(failure) is not reasons.OBJECT_INVALID:
        return ""
    if not isinstance(write, Create):
        return f"shorten or correct the {found[1]} of {target.resource.kind} {target.name}"
    if target.resource not in {RAYCLUSTERS, INGRESSES, ROUTES}:
        return ""
    owners = mappings(mapping(mapping(write.body).get("metadata")).get("ownerReferences"))
    whose = [f"{each.get('kind')} {each.get('name')}" for each in owners]
    return f"shorten or correct the {found[1]} of {''.join(whose[:1]) or 'its owner'}"


def is_inconclusive(failure: Failure) -> bool:
    """Return whether the server did not decide on the write, so that the last known cause stays."""
    return failure.may_resolve or refusal_of(failure) is reasons.API_SERVER_UNAVAILABLE


def names_a_webhook(failure: Failure) -> bool:
    """Return whether the write failed because of an admission webhook that does not answer."""
    return refusal_of(failure) is reasons.ADMISSION_UNAVAILABLE


def failure_reason(write: Write) -> str:
    """Return KubeRay's reason of a failed pod write: `FailedCreateWorkerPod`."""
    return f"Failed{verb_of(write).capitalize()}{_noun(write.target, KUBERAY_NOUNS)}"


def failure_message(failure: Failure) -> str:
    """Describe the failed write with the server's message, equally for every pod of a group."""
    what = f"{component_of_target(failure.write.target)}: {_what_failed(failure.write)}"
    return f"{what}: {failure.reason}: {_stable(failure)}"


def component_of_target(target: Target) -> str:
    """Return the component that a write concerns: `head`, `group small`, `Service x`."""
    return component_of_scope(target.scope) or f"{target.resource.kind} {target.name}"


def component_of_scope(scope: str) -> str:
    """Return the component whose pods a scope counts; empty if it counts none."""
    if scope.startswith(worker_scope("")):
        return f"group {scope.split('/')[1]}"
    return HEAD if scope == HEAD_SCOPE else ""


def _sizing(failure: Failure) -> dict[Reason, str]:
    """Return the remedy that names the containers whose resources a LimitRange refuses."""
    body: Mapping[str, Any] = failure.write.body if isinstance(failure.write, Create) else {}
    names = {name: None for bound in _BOUND.findall(failure.message) for name in _with(body, bound)}
    if not names:
        return {}
    own = [name for name in names if name not in _INJECTED]
    changes = [_INJECTED[name] for name in names if name in _INJECTED]
    if own:
        changes.insert(0, f"change the resources of container {', '.join(own)} in the pod template")
    sizing = "; ".join(changes)
    return {reasons.LIMIT_RANGE_VIOLATED: f"{sizing}, or ask for another LimitRange"}


def _with(body: Mapping[str, Any], bound: tuple[str, str, str]) -> Iterator[str]:
    """Yield the names of containers with this amount, which is all that the server's words tell."""
    resource, kind, amount = bound
    spec = mapping(body.get("spec"))
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        given = mapping(mapping(container.get("resources")).get(f"{kind}s"))
        found: Any = given.get(resource)
        if found is not None and parse_quantity(found) == parse_quantity(amount.rstrip(".")):
            yield str(container.get("name"))


def _stable(failure: Failure) -> str:
    """Return the server's message without a pod's name, which changes with every attempt."""
    target = failure.write.target
    if target.resource is not PODS or not isinstance(failure.write, Create):
        return failure.message
    return failure.message.replace(f' "{target.name}"', "").replace(target.name, "the pod")


def _event_reason(write: Write, nouns: EventNouns) -> str:
    """Return KubeRay's reason of the event: `FailedToCreateWorkerPod`."""
    if write.target.resource in {ISSUERS, CERTIFICATES}:
        return "MTLSFailedToReconcile"
    return f"FailedTo{verb_of(write).capitalize()}{_noun(write.target, nouns)}"


def _what_failed(write: Write) -> str:
    verb = verb_of(write)
    if write.target.resource is not PODS:
        return f"cannot be {verb}d"
    return f"cannot {verb} {'a pod' if isinstance(write, Create) else f'pod {write.target.name}'}"


def _noun(target: Target, nouns: EventNouns) -> str:
    if target.resource is not PODS:
        return event_noun(target.resource, nouns)
    if target.scope.endswith(SERVE_LABEL_SCOPE):
        return target.scope
    return "HeadPod" if target.scope == HEAD_SCOPE else "WorkerPod"


# Who has changed or deleted an object of ours, as far as the object tells.
#
# A field manager is all that the API server keeps of a writer. It names nobody who deletes.


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
    """Return the cause for a head or a group that has lost pods `rounds` times in a row."""
    outlook = (
        f"pods were lost {rounds} times in a row soon after they were made, so that they are not "
        f"replaced before {rfc3339(next_try)}"
    )
    if pod.metadata.terminating or pod.status.phase not in {"Failed", "Succeeded"}:
        return _deletion(pod, outlook)
    cause = diagnose_pod(pod, now, head_ready=False)
    assert cause is not None  # one that has ended is not ready
    detail = cause.detail.removesuffix(ITS_REPLACEMENT)
    return replace(cause, detail=f"{detail}; {outlook}", age="")


def _deletion(pod: Pod, outlook: str) -> Cause:
    target = condition(pod, "DisruptionTarget")
    fate, remedy = _DISRUPTIONS.get(target.reason if target else "", _DELETED)
    detail = f" ({target.reason}: {target.message})" if target else ""
    component = component_of_pod(pod)
    return Cause(
        POD_DELETED,
        component,
        f"pod {pod.metadata.name} {fate}{detail}; {outlook}; {remedy}",
        blocks_head=component == HEAD,
    )
