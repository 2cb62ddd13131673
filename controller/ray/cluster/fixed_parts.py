"""The parts of a cluster that are made once, under names that follow from the cluster's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.kube.resources import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SERVICES
from controller.ray.cluster import autoscaler, services
from controller.ray.cluster.identity import ACCESS_SCOPE, SERVICE_SCOPE
from controller.runtime.plan import Create, Event, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.kube.resources import Resource
    from controller.ray.cluster.observe import Design, Observation
    from controller.ray.cluster.settings import ClusterSettings
    from controller.runtime.plan import Write


def create_fixed_parts(
    seen: Observation, design: Design, settings: ClusterSettings
) -> Iterator[Write]:
    """Creates for the services and the autoscaler's access that do not exist."""
    for resource, scope, body in _wanted(design, settings):
        name: str = body["metadata"]["name"]
        if f"{resource.kind}/{name}" not in seen.absent or scope in seen.unsettled:
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
