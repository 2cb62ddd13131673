"""The parts of a cluster besides its pods, as they are: what is missing, changed or in the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import is_owned_by
from controller.kube.resources import CLAIMS, INGRESSES, ROUTES, SERVICES
from controller.ray.api import labels
from controller.ray.api.event_nouns import event_noun
from controller.ray.children.child import Child, OwnerConflict
from controller.ray.children.owned_fields import changes
from controller.ray.cluster.children import services
from controller.ray.cluster.children.table import (
    asks_for_serve_service,
    desired_children,
    required_objects,
    wants_serve_service,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controller.kube.objects import KubeObject, Service
    from controller.kube.resources import Resource
    from controller.ray.api.raycluster import RayCluster
    from controller.ray.children.child import Body
    from controller.ray.cluster.observe import Design
    from controller.ray.head.identity import Identity
    from controller.ray.settings import ClusterSettings
    from controller.runtime.reconcile.kind import CacheReader

_REMEDY: Final = "delete that object, or rename the cluster"


@dataclass(frozen=True, slots=True)
class Drift:
    """A part of ours that is not as it should be.

    Attributes:
        child: as it should be.
        present: as it is.
        patch: the merge patch from one to the other.
    """

    child: Child
    present: KubeObject
    patch: Body


@dataclass(frozen=True, slots=True)
class Note:
    """What is wrong with a part and only a person can put right.

    Attributes:
        event: reason of the event that tells it, once.
        message: a sentence.
    """

    event: str
    message: str


@dataclass(frozen=True, slots=True)
class ObservedChildren:
    """The parts with fixed names as they are.

    Attributes:
        head_service: the service in front of the head.
        absent: parts that do not exist.
        drifted: parts that are not as they should be.
        surplus: objects of ours that are no longer wanted.
        blocked: sentences, with the remedy, about parts that pods need under names not free.
        missing_required: sentences about objects that users must make before there can be a head.
        notes: what else only a person can put right; what is missing is among them.
    """

    head_service: Service | None = None
    absent: tuple[Child, ...] = ()
    drifted: tuple[Drift, ...] = ()
    surplus: tuple[tuple[Resource[Any], KubeObject], ...] = ()
    blocked: tuple[str, ...] = ()
    missing_required: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def block_pods(self) -> bool:
        """Whether no pod may be made for now."""
        return bool(self.blocked or self.missing_required)


@dataclass(slots=True)
class _Findings:
    """What looking at one part after the other brings up."""

    absent: list[Child] = field(default_factory=list[Child])
    drifted: list[Drift] = field(default_factory=list[Drift])
    blocked: list[str] = field(default_factory=list[str])
    notes: list[Note] = field(default_factory=list[Note])


def observe_children(
    cluster: RayCluster,
    design: Design,
    reads: CacheReader,
    settings: ClusterSettings,
    *,
    has_head: bool,
) -> ObservedChildren:
    """How the parts are. With a head there, what only a new head would need hinders nothing."""
    identity, routes = design.identity, reads.serves(ROUTES)
    parts = tuple(desired_children(cluster, design, settings, routes=routes))
    found = _Findings()
    for part in parts:
        _look_at(part, identity, reads, found, has_head=has_head)
    if asks_for_serve_service(cluster) and not wants_serve_service(cluster, design.spec):
        words = (
            f"annotation {labels.ENABLE_SERVE_SERVICE} asks for a service, but the Ray container "
            "of the head has no port named `serve` or `serve-...`"
        )
        found.notes.append(Note("FailedToCreateService", words))
    missing: list[str] = []
    for given in required_objects(design):
        if reads.get(given.resource, f"{identity.namespace}/{given.name}") is None:
            found.notes.append(Note(given.event, str(given)))
            if given.for_head and not has_head:
                missing.append(str(given))
    return ObservedChildren(
        head_service=_own_head_service(identity, reads),
        absent=tuple(found.absent),
        drifted=tuple(found.drifted),
        surplus=tuple(_surplus(parts, identity, reads, routes=routes)),
        blocked=tuple(found.blocked),
        missing_required=tuple(missing),
        notes=tuple(found.notes),
    )


def _look_at(
    part: Child, identity: Identity, reads: CacheReader, found: _Findings, *, has_head: bool
) -> None:
    key = f"{identity.namespace}/{part.name}"
    present = reads.get(part.resource, key)
    if present is None and not reads.has_name_conflict(part.resource, key):
        found.absent.append(part)
    elif present is None or not _is_ours(part, present, identity.uid):
        _look_at_stranger(part, found, has_head=has_head)
    elif present.metadata.terminating:
        if part.on_conflict is OwnerConflict.ADOPT and not has_head:
            words = "it goes when no pod uses it and no finalizer is left, and is then made anew"
            found.blocked.append(f"{part} is being deleted; {words}")  # a pod would keep it
    else:
        patch, obstacles = changes(part, present)
        if patch:
            found.drifted.append(Drift(part, present, patch))
        reason = f"FailedToUpdate{event_noun(part.resource)}"
        if part.resource is CLAIMS:
            reason = "FailedToCreatePVC"
        found.notes += [Note(reason, f"{part}: {obstacle}") for obstacle in obstacles]


def _is_ours(part: Child, present: KubeObject, uid: str) -> bool:
    adopted = part.on_conflict is OwnerConflict.ADOPT and present.metadata.controller is None
    return adopted or is_owned_by(present.metadata, uid)


def _look_at_stranger(part: Child, found: _Findings, *, has_head: bool) -> None:
    words = f"{part} exists and does not belong to this cluster"
    match part.on_conflict:
        case OwnerConflict.BLOCK:
            found.blocked.append(f"{words}; {_REMEDY}")
        case OwnerConflict.ADOPT:
            if not has_head:
                found.blocked.append(f"{words}; {_REMEDY}")
        case OwnerConflict.IGNORE:
            reason = f"FailedToCreate{event_noun(part.resource)}"
            found.notes.append(Note(reason, f"{words}; it is left as it is"))
        case OwnerConflict.REUSE:
            pass


def _surplus(
    parts: Iterable[Child], identity: Identity, reads: CacheReader, *, routes: bool
) -> Iterator[tuple[Resource[Any], KubeObject]]:
    """Ways in from outside that are no longer asked for."""
    wanted = {(part.resource, part.name) for part in parts}
    resources: list[Resource[Any]] = [SERVICES, INGRESSES]
    for resource in [*resources, ROUTES] if routes else resources:
        for obj in reads.by_index(resource, "owner", identity.uid):
            meta = obj.metadata
            leads_in = resource is not SERVICES or services.is_serve_service(identity, meta)
            if leads_in and not meta.terminating and (resource, meta.name) not in wanted:
                yield resource, obj


def _own_head_service(identity: Identity, reads: CacheReader) -> Service | None:
    """The service in front of the head, under its present or, for a while, an earlier name."""
    services_of_head = [
        service
        for service in reads.by_index(SERVICES, "owner", identity.uid)
        if (service.metadata.labels or {}).get(labels.NODE_TYPE) == labels.HEAD
        or service.metadata.name == identity.head_service
    ]
    return min(
        services_of_head,
        key=lambda service: (service.metadata.name != identity.head_service, service.metadata.name),
        default=None,
    )
