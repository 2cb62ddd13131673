"""Observes a cluster's children: which are missing, differ, or have a name conflict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import ownership_text
from controller.kube.resources import CLAIMS, INGRESSES, ROUTES, SERVICES
from controller.ray.api import labels
from controller.ray.api.event_nouns import event_noun
from controller.ray.children.child import Child, OwnerConflict
from controller.ray.children.drift import ChildState, Drift, observe_child
from controller.ray.cluster.children import services
from controller.ray.cluster.children.table import (
    desired_children,
    enables_serve_service,
    required_objects,
    wants_serve_service,
)
from controller.ray.cluster.observed.children import Note, ObservedChildren
from controller.ray.head.endpoint import head_endpoint
from controller.runtime.kind import owned_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from controller.kube.objects import KubeObject, Pod, Service
    from controller.kube.resources import Resource
    from controller.ray.api.raycluster import RayCluster
    from controller.ray.children.drift import ObservedChild
    from controller.ray.cluster.observation import DesiredCluster
    from controller.ray.head.identity import Identity
    from controller.ray.settings import ClusterSettings
    from controller.runtime.kind import CacheReader

_REMEDY: Final = "delete that object, or rename the cluster"


@dataclass(slots=True)
class _Collected:
    """Results about one child after the other."""

    absent: list[Child] = field(default_factory=list[Child])
    drifted: list[Drift] = field(default_factory=list[Drift])
    blocked: list[str] = field(default_factory=list[str])
    notes: list[Note] = field(default_factory=list[Note])


def observe_children(
    cluster: RayCluster,
    desired: DesiredCluster,
    reads: CacheReader,
    settings: ClusterSettings,
    heads: Sequence[Pod],
) -> ObservedChildren:
    """Observe all children. If there is a head, what only a new head needs blocks nothing."""
    identity, routes, has_head = desired.identity, reads.serves(ROUTES), bool(heads)
    endpoint = head_endpoint(desired.spec, identity, heads)
    children = tuple(desired_children(cluster, desired, endpoint, settings, routes=routes))
    collected = _Collected()
    for child in children:
        observed = observe_child(child, identity.namespace, identity.uid, reads)
        _collect(child, observed, collected, has_head=has_head)
    if enables_serve_service(cluster) and not wants_serve_service(cluster, endpoint):
        message = (
            f"annotation {labels.ENABLE_SERVE_SERVICE} asks for a service, but the Ray container "
            "of the head has no port named `serve` or `serve-...`"
        )
        collected.notes.append(Note("FailedToCreateService", message))
    missing_required: list[str] = []
    for required in required_objects(desired):
        if reads.get(required.resource, f"{identity.namespace}/{required.name}") is None:
            collected.notes.append(Note(required.event, str(required)))
            if required.for_head and not has_head:
                missing_required.append(str(required))
    return ObservedChildren(
        head_service=_own_head_service(identity, reads),
        absent=tuple(collected.absent),
        drifted=tuple(collected.drifted),
        surplus=tuple(_surplus(children, identity, reads, routes=routes)),
        blocked=tuple(collected.blocked),
        missing_required=tuple(missing_required),
        notes=tuple(collected.notes),
    )


def _collect(
    child: Child, observed: ObservedChild, collected: _Collected, *, has_head: bool
) -> None:
    match observed.state:
        case ChildState.MISSING:
            collected.absent.append(child)
        case ChildState.OWNER_CONFLICT:
            meta = observed.present.metadata if observed.present is not None else None
            message = f"{child} exists and {ownership_text(meta)}"
            _collect_conflict(child, message, collected, has_head=has_head)
        case ChildState.TERMINATING:
            if child.on_conflict is OwnerConflict.ADOPT and not has_head:  # a pod would keep it
                collected.blocked.append(
                    f"{child} is being deleted; it is recreated when no pod uses it and it has no "
                    "finalizers"
                )
        case ChildState.PRESENT:
            if observed.drift is not None:
                collected.drifted.append(observed.drift)
            reason = f"FailedToUpdate{event_noun(child.resource)}"
            if child.resource is CLAIMS:
                reason = "FailedToCreatePVC"
            collected.notes += [
                Note(reason, f"{child}: {sentence}") for sentence in observed.immutable_fields
            ]


def _collect_conflict(child: Child, message: str, collected: _Collected, *, has_head: bool) -> None:
    match child.on_conflict:
        case OwnerConflict.BLOCK:
            collected.blocked.append(f"{message}; {_REMEDY}")
        case OwnerConflict.ADOPT:
            if not has_head:
                collected.blocked.append(f"{message}; {_REMEDY}")
        case OwnerConflict.IGNORE:
            reason = f"FailedToCreate{event_noun(child.resource)}"
            collected.notes.append(Note(reason, f"{message}; it is left as it is"))
        case OwnerConflict.REUSE:
            pass


def _surplus(
    children: Iterable[Child], identity: Identity, reads: CacheReader, *, routes: bool
) -> Iterator[tuple[Resource[Any], KubeObject]]:
    """Yield services of Serve, ingresses and routes that are no longer specified."""
    desired = {(child.resource, child.name) for child in children}
    resources: list[Resource[Any]] = [SERVICES, INGRESSES]
    for resource in [*resources, ROUTES] if routes else resources:
        for obj in owned_by(reads, resource, identity):
            meta = obj.metadata
            optional = resource is not SERVICES or services.is_serve_service(identity, meta)
            if optional and not meta.terminating and (resource, meta.name) not in desired:
                yield resource, obj


def _own_head_service(identity: Identity, reads: CacheReader) -> Service | None:
    """Return the service in front of the head, under its present or its earlier name."""
    services_of_head = [
        service
        for service in owned_by(reads, SERVICES, identity)
        if (service.metadata.labels or {}).get(labels.NODE_TYPE) == labels.HEAD
        or service.metadata.name == identity.head_service
    ]
    return min(
        services_of_head,
        key=lambda service: (service.metadata.name != identity.head_service, service.metadata.name),
        default=None,
    )
