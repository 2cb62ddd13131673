"""The parts of a cluster that are made once, under names that follow from the cluster's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.kube.resources import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SERVICES
from controller.ray.api import labels
from controller.ray.api.names import checked_name
from controller.ray.cluster import autoscaler, services
from controller.ray.cluster.identity import ACCESS_SCOPE, SERVICE_SCOPE
from controller.ray.cluster.services import headless_service_name, needs_headless_service
from controller.runtime.ownership import is_owned_by
from controller.runtime.plan import Create, Event, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.kube.objects import Service
    from controller.kube.resources import Resource
    from controller.ray.cluster.identity import Identity
    from controller.ray.cluster.observe import Design, Observation
    from controller.ray.cluster.settings import ClusterSettings
    from controller.runtime.kind import Reads
    from controller.runtime.plan import Write


@dataclass(frozen=True, slots=True)
class FixedParts:
    """The parts with fixed names as they are.

    Attributes:
        head_service: the service in front of the head.
        absent: parts that do not exist: `Service/a-head-svc`.
        blocked: sentences about parts whose name belongs to somebody else.
    """

    head_service: Service | None = None
    absent: frozenset[str] = frozenset()
    blocked: tuple[str, ...] = ()


def observe_fixed_parts(design: Design, reads: Reads) -> FixedParts:
    """Which of the parts that the design wants exist, and whose they are."""
    identity, spec = design.identity, design.spec
    service = _own_head_service(identity, reads)
    wanted: list[tuple[Resource[Any], str]] = []
    if service is None:
        wanted.append((SERVICES, identity.head_service))
    if needs_headless_service(spec):
        wanted.append((SERVICES, headless_service_name(identity)))
    if spec.autoscaling:
        role = checked_name(identity.name)
        wanted += [(ROLES, role), (ROLE_BINDINGS, role)]
        if not spec.head_group_spec.template["spec"].get("serviceAccountName"):
            wanted.append((SERVICE_ACCOUNTS, identity.service_account))
    blocked: list[str] = []
    absent: set[str] = set()
    for resource, name in wanted:
        key = f"{identity.namespace}/{name}"
        present = reads.get(resource, key)
        if present is None and not reads.is_taken(resource, key):
            absent.add(f"{resource.kind}/{name}")
        elif resource is not SERVICES:
            continue  # access that somebody else set up will do
        elif present is None or not is_owned_by(present.metadata, identity.uid):
            blocked.append(f"{resource.kind} {name} exists and does not belong to this cluster")
    return FixedParts(service, frozenset(absent), tuple(blocked))


def _own_head_service(identity: Identity, reads: Reads) -> Service | None:
    """The service in front of the head: by its name, else any of ours that is labelled so."""
    services_of_head = [
        service
        for service in reads.by_index(SERVICES, "owner", identity.uid)
        if (service.metadata.labels or {}).get(labels.NODE_TYPE) == labels.HEAD
    ]
    for service in services_of_head:
        if service.metadata.name == identity.head_service:
            return service
    return services_of_head[0] if services_of_head else None


def create_fixed_parts(
    seen: Observation, design: Design, settings: ClusterSettings
) -> Iterator[Write]:
    """Creates for the services and the autoscaler's access that do not exist."""
    for resource, scope, body in _wanted(design, settings):
        name: str = body["metadata"]["name"]
        if f"{resource.kind}/{name}" not in seen.fixed.absent or scope in seen.unsettled:
            continue
        yield Create(
            Target(resource, design.identity.namespace, name, scope),
            body,
            on_success=_event("Normal", "Created", resource, name),
            on_failure=_event("Warning", "FailedToCreate", resource, name),
        )


def _wanted(
    design: Design, settings: ClusterSettings
) -> Iterator[tuple[Resource[Any], str, Mapping[str, Any]]]:
    identity, spec = design.identity, design.spec
    yield (
        SERVICES,
        f"{SERVICE_SCOPE}/head",
        services.head_service(
            spec,
            identity,
            design.builder.head_labels(),
            cluster_ip=settings.head_cluster_ip_service,
        ),
    )
    yield SERVICES, f"{SERVICE_SCOPE}/headless", services.headless_service(identity)
    yield SERVICE_ACCOUNTS, ACCESS_SCOPE, autoscaler.service_account(identity)
    yield ROLES, ACCESS_SCOPE, autoscaler.role(identity)
    yield ROLE_BINDINGS, ACCESS_SCOPE, autoscaler.role_binding(identity)


def _event(kind: Any, verb: str, resource: Resource[Any], name: str) -> Event:
    words = "Created" if verb == "Created" else "Failed to create"
    return Event(kind, f"{verb}{resource.kind}", "Create", f"{words} {resource.kind} {name}")
