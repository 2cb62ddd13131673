"""Which objects a cluster has besides pods, which of them are there, and the writes for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from controller.apimachinery.conditions import tells
from controller.apimachinery.metadata import ownership_text
from controller.kube.objects import KubeObject, ObjectMeta, Service
from controller.kube.resources import (
    CERTIFICATES,
    CLAIMS,
    INGRESSES,
    ISSUERS,
    NETWORK_POLICIES,
    POD_GROUPS,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from controller.ray.api import labels
from controller.ray.api.feature_gates import MTLS
from controller.ray.api.names import CHILDREN_AS_SPECIFIED, SUSPENDED, event_noun
from controller.ray.api.raycluster import (
    ClusterSpec,
    RayCluster,
    needs_token_secret,
    token_secret_name,
)
from controller.ray.children import (
    Child,
    ChildState,
    Drift,
    ObservedChild,
    OwnerConflict,
    create_child,
    delete_child,
    observe_child,
    repair_child,
    seconds_until_recreation,
    with_owned_fields,
)
from controller.ray.children.scheduling_groups import (
    NO_GROUPS,
    ObservedGroups,
    observe_cluster_groups,
    remove_group,
)
from controller.ray.children.services import desired_service_fields, head_service
from controller.ray.cluster.certificates import certificate_children, observe_certificates
from controller.ray.cluster.children import (
    Note,
    ObservedCertificates,
    ObservedChildren,
    desired_claim_fields,
    headless_service,
    ingress,
    is_serve_service,
    needs_headless_service,
    role,
    role_binding,
    route,
    serve_service,
    service_account,
    storage_claim,
    token_data,
    token_secret,
)
from controller.ray.cluster.network_policy import (
    NAME_COLLISION,
    desired_policy_fields,
    is_still_needed,
    network_policies,
    policies_impossible,
)
from controller.ray.cluster.observation import ClusterObservation, DesiredCluster, soonest
from controller.ray.cluster.own_certificates import (
    is_own_certificate,
    own_certificates,
    renewal_writes,
)
from controller.ray.diagnosis import reasons
from controller.ray.diagnosis.pod import HEAD
from controller.ray.diagnosis.reasons import Cause
from controller.ray.head import HeadEndpoint, Identity, head_endpoint
from controller.ray.pods.fault_tolerance import EmbeddedStorage, state_storage
from controller.ray.pods.features import uses_certificates
from controller.ray.settings import MANTA
from controller.runtime.kind import CacheReader, owned_by
from controller.runtime.plan import Event, SecretContent, Write

T = TypeVar("T", Child, Drift, Cause, Note)

# The table of a cluster's children.
#
# It follows from the RayCluster object, the settings, and whether the API server serves OpenShift's
# routes.


def desired_children(
    seen: ClusterObservation, endpoint: HeadEndpoint, *, routes: bool
) -> Iterator[Child]:
    """Yield all children of the cluster.

    `routes` is whether the API server serves routes.
    """
    spec, identity, settings = seen.desired.spec, seen.desired.identity, seen.settings
    for policy in network_policies(seen, endpoint):
        yield Child(NETWORK_POLICIES, policy, desired_fields=desired_policy_fields)
    annotations = seen.cluster.metadata.annotations or {}
    head = head_service(spec, identity, endpoint, cluster_ip=settings.head_cluster_ip_service)
    yield Child(SERVICES, with_owned_fields(head), desired_fields=desired_service_fields)
    if needs_headless_service(spec):
        yield Child(SERVICES, headless_service(identity), desired_fields=desired_service_fields)
    if wants_serve_service(seen.cluster, endpoint):
        serve = with_owned_fields(serve_service(spec, identity, endpoint))
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
            resource, body = ROUTES, route(identity, endpoint, annotations)
        else:
            resource = INGRESSES
            body = ingress(spec, identity, endpoint, annotations)
        yield Child(resource, with_owned_fields(body), OwnerConflict.IGNORE, independent=True)
    yield from _secret_and_claim(seen)
    if spec.autoscaling:
        yield from _access(seen.desired, endpoint)


def _secret_and_claim(seen: ClusterObservation) -> Iterator[Child]:
    spec, identity = seen.desired.spec, seen.desired.identity
    auth, options = spec.auth_options, spec.gcs_fault_tolerance_options
    if auth is not None and needs_token_secret(auth):
        secret = token_secret(identity, token_secret_name(identity.name, auth))
        yield Child(
            SECRETS, secret, secret=SecretContent(partial(token_data, seen.settings.new_token))
        )
    state, storage = state_storage(seen.cluster, spec), options and options.storage
    if isinstance(state, EmbeddedStorage) and not (storage and storage.claim_name):
        claim = storage_claim(identity, state.claim, storage)
        yield Child(
            CLAIMS, claim, OwnerConflict.ADOPT, desired_fields=desired_claim_fields(identity.uid)
        )


def _access(desired: DesiredCluster, endpoint: HeadEndpoint) -> Iterator[Child]:
    identity = desired.identity
    if not _own_service_account(desired.spec):
        yield Child(SERVICE_ACCOUNTS, service_account(identity), OwnerConflict.REUSE)
    yield Child(ROLES, role(identity), OwnerConflict.REUSE)
    binding = role_binding(identity, endpoint.service_accounts)
    yield Child(ROLE_BINDINGS, binding, OwnerConflict.REUSE)


def missing_objects(desired: DesiredCluster, reads: CacheReader) -> Iterator[tuple[Note, bool]]:
    """Yield a note about each missing object of users, and whether the head requires it."""
    spec, identity = desired.spec, desired.identity
    named: list[tuple[Resource[Any], str, str, str]] = []
    if spec.autoscaling and _own_service_account(spec):
        path = "spec.headGroupSpec.template.spec.serviceAccountName"
        event = "AutoscalerServiceAccountNotFound"
        named.append((SERVICE_ACCOUNTS, identity.service_account, path, event))
    options = spec.gcs_fault_tolerance_options
    storage = options.storage if options is not None and options.embedded else None
    if storage is not None and storage.claim_name:
        path = "spec.gcsFaultToleranceOptions.storage.claimName"
        named.append((CLAIMS, storage.claim_name, path, "FailedToCreatePVC"))
    for resource, name, path, event in named:
        if reads.get(resource, f"{identity.namespace}/{name}") is None:
            sentence = f"{resource.kind} {name} does not exist; {path} names it"
            yield Note(event, sentence), resource is SERVICE_ACCOUNTS


def enables_serve_service(cluster: RayCluster) -> bool:
    """Return whether the annotation enables the service for Serve."""
    return (cluster.metadata.annotations or {}).get(labels.ENABLE_SERVE_SERVICE) == "true"


def wants_serve_service(cluster: RayCluster, endpoint: HeadEndpoint) -> bool:
    """Return whether it is enabled and the head has a port for it."""
    return enables_serve_service(cluster) and bool(endpoint.serve_ports)


def _own_service_account(spec: ClusterSpec) -> bool:
    return bool(spec.head_group_spec.template["spec"].get("serviceAccountName"))


# Observes a cluster's children: which are missing, differ, or have a name conflict.

_REMEDY: Final = "delete that object, or rename the cluster"
_MAY_BE_UNSERVED: Final = frozenset({NETWORK_POLICIES, ISSUERS, CERTIFICATES})


_Finding: TypeAlias = Child | Drift | Cause | Note
"""What is found of a child: that it is absent, or differs, or blocks pods, or needs a person."""


def observe_children(
    seen: ClusterObservation, reads: CacheReader, *, is_foreseen: bool = False
) -> ObservedChildren:
    """Observe all children. If there is a head, what only a new head needs blocks nothing.

    A plan without the world, which `is_foreseen`, takes certificates for issued.
    """
    cluster, desired, settings, has_head = (
        seen.cluster,
        seen.desired,
        seen.settings,
        bool(seen.heads),
    )
    identity, endpoint = desired.identity, head_endpoint(desired.spec, desired.identity, seen.heads)
    children = tuple(desired_children(seen, endpoint, routes=reads.serves(ROUTES)))
    certificates = ObservedCertificates()
    if desired.spec.has_mtls and settings.mtls_issuer == MANTA:
        own, certificates = own_certificates(seen, reads)
        children += own
    elif desired.spec.has_mtls:
        children += tuple(certificate_children(seen))
        certificates = observe_certificates(identity, reads, are_issued=is_foreseen)
    found: list[_Finding] = [*policies_impossible(desired.spec, reads)]
    for child in children:
        if child.resource in _MAY_BE_UNSERVED and not reads.serves(child.resource):
            continue
        observed = observe_child(child, identity.namespace, identity.uid, reads)
        found += _findings(child, observed, has_head=has_head)
    if enables_serve_service(cluster) and not wants_serve_service(cluster, endpoint):
        message = (
            f"annotation {labels.ENABLE_SERVE_SERVICE} asks for a service, but the Ray container "
            "of the head has no port named `serve` or `serve-...`"
        )
        found.append(Note("FailedToCreateService", message))
    for note, of_head in missing_objects(desired, reads):
        found.append(note)
        if of_head and not has_head:
            message = f"{note.message}; the head is not created before it exists"
            found.append(Cause(reasons.REQUIRED_OBJECT_MISSING, HEAD, message, blocks_head=True))
    idle = desired.spec.suspend or seen.is_true(SUSPENDED)
    groups = NO_GROUPS  # what a suspended cluster has is kept for its resumption, as in KubeRay
    if not idle:
        groups = observe_cluster_groups(settings.batch_scheduler, cluster, desired.spec, reads)
    return ObservedChildren(
        head_service=_own_head_service(identity, reads),
        absent=(*_only(found, Child), *groups.absent),
        drifted=_only(found, Drift),
        surplus=tuple(_surplus(children, seen, reads)),
        blocked=(*_only(found, Cause), *_without_groups(groups)),
        groups=groups,
        certificates=certificates,
        notes=_only(found, Note),
    )


def _only(found: Iterable[_Finding], kind: type[T]) -> tuple[T, ...]:
    return tuple(each for each in found if isinstance(each, kind))


def _findings(child: Child, observed: ObservedChild, *, has_head: bool) -> Iterator[_Finding]:
    present, holds_head = (
        observed.present,
        child.on_conflict is OwnerConflict.ADOPT and not has_head,
    )
    match observed.state:
        case ChildState.MISSING:
            yield child
        case ChildState.OWNER_CONFLICT:
            message = f"{child} exists and {ownership_text(present and present.metadata)}"
            if child.on_conflict is OwnerConflict.BLOCK or holds_head:
                yield _name_taken(child, f"{message}; {_REMEDY}")
            elif child.on_conflict is OwnerConflict.IGNORE:
                reason = f"FailedToCreate{event_noun(child.resource)}"
                yield Note(reason, f"{message}; it is left as it is")
        case ChildState.TERMINATING if holds_head:  # a pod would keep it
            sentence = (
                f"{child} is being deleted; it is recreated when no pod uses it and it has no "
                "finalizers"
            )
            yield _name_taken(child, sentence)
        case ChildState.TERMINATING:
            pass
        case ChildState.PRESENT:
            if observed.drift is not None:
                yield observed.drift
            noun = event_noun(child.resource)
            reason = "FailedToCreatePVC" if child.resource is CLAIMS else f"FailedToUpdate{noun}"
            for sentence in observed.immutable_fields:
                yield Note(reason, f"{child}: {sentence}")


def _without_groups(groups: ObservedGroups) -> Iterator[Cause]:
    """Yield why a gang cannot start: without its group the scheduler would start a part of it."""
    if groups.unserved:
        message = f"{groups.unserved}; no pod starts before"
        yield Cause(reasons.SCHEDULING_GROUP_MISSING, "cluster", message, blocks_head=True)
    for sentence in groups.taken:
        yield Cause(reasons.NAME_TAKEN, "cluster", sentence, blocks_head=True)
    if groups.awaited:
        yield Cause(reasons.CHILD_MISSING, "cluster", groups.awaited, blocks_head=True)


def _name_taken(child: Child, sentence: str) -> Cause:
    event = NAME_COLLISION if child.resource is NETWORK_POLICIES else ""
    return Cause(reasons.NAME_TAKEN, "cluster", sentence, blocks_head=True, event=event)


def _surplus(
    children: Iterable[Child], seen: ClusterObservation, reads: CacheReader
) -> Iterator[tuple[Resource[Any], KubeObject]]:
    """Yield objects that are no longer specified: all but secrets, access and storage."""
    identity, settings = seen.desired.identity, seen.settings
    specified = {(child.resource, child.name) for child in children}
    optional: list[Resource[Any]] = [ROUTES, NETWORK_POLICIES]
    if settings.feature_gates.enabled(MTLS) and not any(map(uses_certificates, seen.all_pods)):
        optional += [SECRETS] if settings.mtls_issuer == MANTA else [ISSUERS, CERTIFICATES, SECRETS]
    resources: list[Resource[Any]] = [SERVICES, INGRESSES, *filter(reads.serves, optional)]
    for resource in resources:
        for obj in owned_by(reads, resource, identity):
            meta = obj.metadata
            if meta.terminating or (resource, meta.name) in specified:
                continue
            if resource is SERVICES and not (
                is_serve_service(identity, meta) or _is_left_behind(meta, seen, reads)
            ):
                continue
            if resource is SECRETS and not is_own_certificate(meta):
                continue
            if resource is NETWORK_POLICIES and is_still_needed(
                obj, seen.desired.spec, seen.workers
            ):
                continue
            yield resource, obj


def _is_left_behind(meta: ObjectMeta, seen: ClusterObservation, reads: CacheReader) -> bool:
    """Return whether it is the head service under its name before, and no worker knows that name.

    A worker finds the head by the name that the service had when it was created.
    """
    if (meta.labels or {}).get(labels.NODE_TYPE) != labels.HEAD:
        return False
    present = reads.get(SERVICES, f"{meta.namespace}/{seen.desired.identity.head_service}")
    since = present.metadata.creation_timestamp if present is not None else None
    if since is None or not (meta.creation_timestamp or since) < since:
        return False
    return all((pod.metadata.creation_timestamp or "") > since for pod in seen.all_workers)


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


# Writes that bring a cluster's children to their desired state.
#
# Children that pods depend on are created before the pods. Other children and all repairs are
# independent of the pods: neither waits for the other.


def create_children(seen: ClusterObservation) -> tuple[list[Write], list[Write]]:
    """Create what pods depend on, in two stages: a role binding requires its role.

    A PodGroup requires its Workload. Groups get their size before the pods that are to fit.
    """
    namespace, is_last = seen.desired.identity.namespace, {ROLE_BINDINGS, POD_GROUPS}
    absent = [child for child in seen.children.absent if not child.independent]
    creates = [create_child(namespace, child, seen.now) for child in absent]
    repairs = (repair_child(namespace, each, seen.now) for each in seen.children.groups.drifted)
    first = [each for each in creates if each.target.resource not in is_last]
    bindings = [each for each in creates if each.target.resource in is_last]
    return (
        [*seen.settled([*first, *filter(None, repairs)])],
        [] if has_unconfirmed_children(seen) else [*bindings],
    )


def has_unconfirmed_children(seen: ClusterObservation) -> bool:
    """Return whether a child that pods depend on may or may not exist."""
    absent = (child for child in seen.children.absent if not child.independent)
    return any(child.scope in seen.pending_scopes for child in absent)


def repair_children(seen: ClusterObservation) -> Iterator[Write]:
    """Create independent children, repair those that differ, delete those not desired."""
    namespace, children = seen.desired.identity.namespace, seen.children
    absent = (child for child in children.absent if child.independent)
    repairs = (repair_child(namespace, drift, seen.now) for drift in children.drifted)
    yield from seen.settled(
        (
            *(create_child(namespace, child, seen.now) for child in absent),
            *filter(None, repairs),
            *children.certificates.repairs,
            *renewal_writes(seen, namespace),
            *(delete_child(namespace, *each) for each in children.surplus),
            *(remove_group(namespace, *each) for each in children.groups.surplus),
        )
    )


def child_events(seen: ClusterObservation) -> Iterator[Event]:
    """Yield events about children that only a person can repair, if no condition names them yet."""
    condition = seen.condition(CHILDREN_AS_SPECIFIED)
    if tells(condition, seen.children.notes_message):
        return
    for note in seen.children.notes:
        if not tells(condition, note.message):
            yield Event("Warning", note.event, "Reconcile", note.message)


def seconds_until_repair(seen: ClusterObservation) -> float | None:
    """Return the seconds until a child may be recreated; None if no repair waits for that."""
    return soonest(*(seconds_until_recreation(each, seen.now) for each in seen.children.drifted))
