"""Tells a write that the API server rejects as a cause, with a remedy for the user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping, mappings
from controller.apimachinery.quantity import parse_quantity
from controller.kube.resources import CERTIFICATES, INGRESSES, ISSUERS, PODS, ROUTES
from controller.ray.api.names import AUTOSCALER, KUBERAY_NOUNS, SUBMITTER, event_noun
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.diagnosis.pod import HEAD
from controller.ray.diagnosis.reasons import Cause
from controller.ray.head.endpoint import HEAD_SCOPE, SERVE_LABEL_SCOPE, worker_scope
from controller.ray.pods.features import WAIT_CONTAINER
from controller.runtime import reasons
from controller.runtime.plan import Create, verb_of
from controller.runtime.reasons import refusal_of, remedy_of, with_remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.ray.api.names import EventNouns
    from controller.runtime.plan import Failure, Target, Write
    from controller.runtime.reasons import Reason

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
    said = f"{_what_failed(failure.write)}: {_stable(failure)}"
    return Cause(
        reason,
        component,
        failure.message
        if reason is reasons.REPEATEDLY_DELETED
        else with_remedy(
            said, _of_metadata(failure) or remedy_of(failure, _REMEDIES | _sizing(failure))
        ),
        blocks_head=component == HEAD or not (has_head or target.resource is PODS),
        event=_event_reason(failure.write, nouns),
    )


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
    if target.scope == HEAD_SCOPE:
        return HEAD
    if target.scope.startswith(worker_scope("")):
        return f"group {target.scope.split('/')[1]}"
    return f"{target.resource.kind} {target.name}"


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
    words = "; ".join(changes)
    return {reasons.LIMIT_RANGE_VIOLATED: f"{words}, or ask for another LimitRange"}


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
