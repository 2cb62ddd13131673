"""The table of a cluster's children.

It follows from the RayCluster object, the settings, and whether the API server serves OpenShift's
routes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from controller.kube.resources import (
    CLAIMS,
    INGRESSES,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from controller.ray.api import labels
from controller.ray.api.token import needs_token_secret, token_secret_name
from controller.ray.children.child import Child, OwnerConflict
from controller.ray.children.owned_fields import with_owned_fields
from controller.ray.children.service_fields import desired_service_fields
from controller.ray.cluster.children import access, ingress, services
from controller.ray.cluster.children.storage_claim import desired_claim_fields, storage_claim
from controller.ray.cluster.children.token_secret import token_data, token_secret
from controller.ray.head.service import head_service
from controller.ray.pods.features.fault_tolerance import EmbeddedStorage, state_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.resources import Resource
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.cluster.observation import DesiredCluster
    from controller.ray.head.endpoint import HeadEndpoint
    from controller.ray.settings import ClusterSettings


@dataclass(frozen=True, slots=True)
class RequiredObject:
    """An object that the specification names and that users create.

    Attributes:
        resource: its resource.
        name: its name, in the cluster's namespace.
        named_by: path of the field that names it.
        event: reason of the event when it does not exist.
        for_head: whether the head requires it.
    """

    resource: Resource[Any]
    name: str
    named_by: str
    event: str
    for_head: bool

    def __str__(self) -> str:
        """Return the message for a missing object."""
        return f"{self.resource.kind} {self.name} does not exist; {self.named_by} names it"


def desired_children(
    cluster: RayCluster,
    desired: DesiredCluster,
    endpoint: HeadEndpoint,
    settings: ClusterSettings,
    *,
    routes: bool,
) -> Iterator[Child]:
    """Yield all children of the cluster.

    Args:
        cluster: the object.
        desired: its desired state.
        endpoint: the head to which they lead.
        settings: settings of the RayCluster controller.
        routes: whether the API server serves routes.
    """
    spec, identity = desired.spec, desired.identity
    annotations = cluster.metadata.annotations or {}
    head = head_service(spec, identity, endpoint, cluster_ip=settings.head_cluster_ip_service)
    yield Child(SERVICES, with_owned_fields(head), desired_fields=desired_service_fields)
    if services.needs_headless_service(spec):
        yield Child(
            SERVICES, services.headless_service(identity), desired_fields=desired_service_fields
        )
    if wants_serve_service(cluster, endpoint):
        serve = with_owned_fields(services.serve_service(spec, identity, endpoint))
        yield Child(
            SERVICES,
            serve,
            OwnerConflict.IGNORE,
            independent=True,
            desired_fields=desired_service_fields,
        )
    if spec.head_group_spec.enable_ingress:
        options = spec.head_group_spec.ingress_options or {}
        tls = bool(options.get("tls"))  # a route would leave it out; an ingress becomes one with it
        if routes and not settings.use_ingress_on_openshift and not tls:
            resource, body = ROUTES, ingress.route(identity, endpoint, annotations)
        else:
            resource = INGRESSES
            body = ingress.ingress(spec, identity, endpoint, annotations)
        yield Child(resource, with_owned_fields(body), OwnerConflict.IGNORE, independent=True)
    yield from _secret_and_claim(cluster, desired, settings)
    if spec.autoscaling:
        yield from _access(desired, endpoint)


def _secret_and_claim(
    cluster: RayCluster, desired: DesiredCluster, settings: ClusterSettings
) -> Iterator[Child]:
    spec, identity = desired.spec, desired.identity
    auth, options = spec.auth_options, spec.gcs_fault_tolerance_options
    if auth is not None and needs_token_secret(auth):
        secret = token_secret(identity, token_secret_name(identity.name, auth))
        yield Child(SECRETS, secret, secret=partial(token_data, settings.new_token))
    state, storage = state_storage(cluster, spec), options and options.storage
    if isinstance(state, EmbeddedStorage) and not (storage and storage.claim_name):
        claim = storage_claim(identity, state.claim, storage)
        yield Child(
            CLAIMS, claim, OwnerConflict.ADOPT, desired_fields=desired_claim_fields(identity.uid)
        )


def _access(desired: DesiredCluster, endpoint: HeadEndpoint) -> Iterator[Child]:
    identity = desired.identity
    if not _own_service_account(desired.spec):
        yield Child(SERVICE_ACCOUNTS, access.service_account(identity), OwnerConflict.REUSE)
    yield Child(ROLES, access.role(identity), OwnerConflict.REUSE)
    binding = access.role_binding(identity, endpoint.service_accounts)
    yield Child(ROLE_BINDINGS, binding, OwnerConflict.REUSE)


def required_objects(desired: DesiredCluster) -> Iterator[RequiredObject]:
    """Yield the objects that users create."""
    spec, identity = desired.spec, desired.identity
    if spec.autoscaling and _own_service_account(spec):
        yield RequiredObject(
            SERVICE_ACCOUNTS,
            identity.service_account,
            "spec.headGroupSpec.template.spec.serviceAccountName",
            "AutoscalerServiceAccountNotFound",
            for_head=True,
        )
    options = spec.gcs_fault_tolerance_options
    storage = options.storage if options is not None and options.embedded else None
    if storage is not None and storage.claim_name:
        path = "spec.gcsFaultToleranceOptions.storage.claimName"
        yield RequiredObject(CLAIMS, storage.claim_name, path, "FailedToCreatePVC", for_head=False)


def enables_serve_service(cluster: RayCluster) -> bool:
    """Return whether the annotation enables the service for Serve."""
    return (cluster.metadata.annotations or {}).get(labels.ENABLE_SERVE_SERVICE) == "true"


def wants_serve_service(cluster: RayCluster, endpoint: HeadEndpoint) -> bool:
    """Return whether it is enabled and the head has a port for it."""
    return enables_serve_service(cluster) and bool(endpoint.serve_ports)


def _own_service_account(spec: ClusterSpec) -> bool:
    return bool(spec.head_group_spec.template["spec"].get("serviceAccountName"))
