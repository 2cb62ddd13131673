"""The objects of a cluster besides pods: their bodies, and what is seen of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from controller.apimachinery.metadata import is_owned_by
from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.kube.objects import KubeObject, ObjectMeta, PersistentVolumeClaim, Service
from controller.kube.resources import (
    CLAIMS,
    INGRESSES,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from controller.ray.api import labels
from controller.ray.api.names import checked_name, checked_route_name
from controller.ray.api.raycluster import TOKEN_KEY, ClusterSpec, GcsStorage
from controller.ray.children import Body, Child, DesiredFields, Drift, OwnedKeys, body_of
from controller.ray.children.child_cluster import inherited_annotations
from controller.ray.children.scheduling_groups import NO_GROUPS, ObservedGroups
from controller.ray.diagnosis.reasons import Cause
from controller.ray.head import HeadEndpoint, Identity
from controller.runtime.plan import Write

# The service account, role and role binding of Ray's autoscaler.

_RULES: Final = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
)


def service_account(identity: Identity) -> Body:
    """Return the ServiceAccount of the head pod."""
    return body_of(SERVICE_ACCOUNTS, child_metadata(identity, identity.service_account))


def role(identity: Identity) -> Body:
    """Return the Role with the autoscaler's permissions in its namespace."""
    metadata = child_metadata(identity, checked_name(identity.name))
    return body_of(ROLES, metadata, rules=copy.deepcopy(list(_RULES)))


def role_binding(identity: Identity, accounts: Iterable[str]) -> Body:
    """Return the RoleBinding of the role to the service accounts of the head."""
    name = checked_name(identity.name)
    return body_of(
        ROLE_BINDINGS,
        child_metadata(identity, name),
        subjects=[
            {"kind": "ServiceAccount", "name": account, "namespace": identity.namespace}
            for account in accounts
        ],
        roleRef={"apiGroup": ROLES.group, "kind": "Role", "name": name},
    )


def child_metadata(identity: Identity, name: str, own: Mapping[str, str] | None = None) -> Body:
    """Return the metadata of an object of the cluster, with its usual labels or with these."""
    usual = {
        labels.CLUSTER: identity.name,
        labels.APP_NAME: labels.APP_NAME_VALUE,
        labels.CREATED_BY: labels.CREATED_BY_VALUE,
    }
    return {
        "name": name,
        "namespace": identity.namespace,
        "labels": usual if own is None else dict(own),
        "ownerReferences": [identity.owner],
    }


def pod_selector(identity: Identity, group: str = "") -> dict[str, str]:
    """Return the labels that select the head, or the workers of a group."""
    role = labels.WORKER if group else labels.HEAD
    selector = {labels.CLUSTER: identity.name, labels.NODE_TYPE: role}
    return selector | ({labels.GROUP: group} if group else {})


# The Ingress of the dashboard, or its Route on OpenShift.


def ingress(
    spec: ClusterSpec, identity: Identity, endpoint: HeadEndpoint, annotations: Mapping[str, str]
) -> Body:
    """Return the Ingress; the cluster's `annotations` give its class and settings."""
    options: Mapping[str, Any] = spec.head_group_spec.ingress_options or {}
    backend = {"name": identity.head_service, "port": {"number": endpoint.dashboard_port}}
    path = {
        "path": options.get("path", "/"),
        "pathType": options.get("pathType", "Prefix"),
        "backend": {"service": backend},
    }
    rule: Body = {"http": {"paths": [path]}}
    if options.get("host"):
        rule["host"] = options["host"]
    ingress_spec: Body = {"rules": [rule]}
    if options.get("tls"):
        ingress_spec["tls"] = copy.deepcopy(options["tls"])
    if annotations.get(labels.INGRESS_CLASS):
        ingress_spec["ingressClassName"] = annotations[labels.INGRESS_CLASS]
    name = checked_name(f"{identity.name}-head-ingress")
    copied = {key: annotations[key] for key in annotations if key != labels.INGRESS_CLASS}
    return body_of(INGRESSES, _ingress_metadata(identity, name, copied), spec=ingress_spec)


def route(identity: Identity, endpoint: HeadEndpoint, annotations: Mapping[str, str]) -> Body:
    """Return the Route; the server chooses its host."""
    name = checked_route_name(f"{identity.name}-head-route", identity.namespace)
    spec: Body = {
        "to": {"kind": "Service", "name": identity.head_service, "weight": 100},
        "port": {"targetPort": endpoint.dashboard_port},
        "wildcardPolicy": "None",
    }
    return body_of(ROUTES, _ingress_metadata(identity, name, annotations), spec=spec)


def _ingress_metadata(identity: Identity, name: str, annotations: Mapping[str, str]) -> Body:
    defaults = identity.pod_labels(labels.HEAD, labels.HEAD_GROUP)
    copied = (labels.CLUSTER, labels.IDENTIFIER, labels.APP_NAME, labels.CREATED_BY)
    metadata = child_metadata(identity, name, {key: defaults[key] for key in copied})
    return metadata | {"annotations": inherited_annotations(annotations)}


# The services of a RayCluster for multi-host workers and for Ray Serve.


def headless_service_name(identity: Identity) -> str:
    """Return the name of the service of multi-host workers."""
    return f"{identity.name}-headless"


def needs_headless_service(spec: ClusterSpec) -> bool:
    """Return whether a group has replicas of several hosts."""
    return any(group.hosts > 1 for group in spec.worker_group_specs)


def headless_service(identity: Identity) -> Body:
    """Return the service that gives workers DNS names."""
    own = {labels.HEADLESS_SERVICE: identity.name}
    spec: Body = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {labels.CLUSTER: identity.name, labels.NODE_TYPE: labels.WORKER},
    }
    metadata = child_metadata(identity, headless_service_name(identity), own)
    return body_of(SERVICES, metadata, spec=spec)


def serve_service_name(identity: Identity) -> str:
    """Return the name of the service for Ray Serve."""
    return f"{identity.name}-serve-svc"


def is_serve_service(identity: Identity, meta: ObjectMeta) -> bool:
    """Return whether the cluster created it; a RayService's may have the same name and owner."""
    is_ours = (meta.labels or {}).get(labels.ORIGIN_KIND) == "RayCluster"
    return is_ours and meta.name == serve_service_name(identity)


def serve_service(spec: ClusterSpec, identity: Identity, endpoint: HeadEndpoint) -> Body:
    """Return the service for Ray Serve of a cluster without a RayService."""
    own = {
        labels.ORIGIN_NAME: identity.name,
        labels.ORIGIN_KIND: "RayCluster",
        labels.SERVE: f"{identity.name}-serve",
    }
    service: Body = {
        "type": spec.head_group_spec.service_type or "ClusterIP",
        "selector": {labels.CLUSTER: identity.name},
        "ports": [
            {"name": name, "port": port} for name, port in sorted(endpoint.serve_ports.items())
        ],
    }
    metadata = child_metadata(identity, serve_service_name(identity), own)
    return body_of(SERVICES, metadata, spec=service)


# The claim for the volume of an embedded GCS store (backend rocksdb).

_DEFAULT_SIZE: Final = "1Gi"
_DEFAULT_MODES: Final = ("ReadWriteOnce",)


def storage_claim(identity: Identity, name: str, storage: GcsStorage | None) -> Body:
    """Return the claim; `Retain` leaves out its owner, so that it is not garbage-collected."""
    storage = storage or GcsStorage()
    metadata = child_metadata(identity, name, {labels.CLUSTER: identity.name})
    if storage.deletion_policy == "Retain":
        del metadata["ownerReferences"]
    spec: Body = {
        "accessModes": list(storage.access_modes or _DEFAULT_MODES),
        "resources": {"requests": {"storage": str(storage.size or _DEFAULT_SIZE)}},
    }
    if storage.storage_class_name is not None:
        spec["storageClassName"] = storage.storage_class_name
    return body_of(CLAIMS, metadata, spec=spec)


def desired_claim_fields(owner_uid: str) -> Any:
    """Return the desired fields of an existing claim: only its owner can be changed."""

    def desired_fields(
        body: Mapping[str, Any], present: PersistentVolumeClaim, _formerly: OwnedKeys
    ) -> DesiredFields:
        wanted: list[Body] = body["metadata"].get("ownerReferences", [])
        fields: Body = {}
        if bool(wanted) is not is_owned_by(present.metadata, owner_uid):
            others = [
                {key: value for key, value in reference.items() if value is not None}
                for reference in msgspec.to_builtins(present.metadata.owner_references)
                if reference["uid"] != owner_uid
            ]
            fields = {"metadata": {"ownerReferences": [*others, *wanted]}}
        drift = "; ".join(_drift(body["spec"], present))
        if not drift:
            return DesiredFields(fields)
        message = f"{drift}: a claim is immutable; delete it so that it is created again"
        return DesiredFields(fields, (message,))

    return desired_fields


def _drift(wanted: Mapping[str, Any], present: PersistentVolumeClaim) -> Iterator[str]:
    now = present.spec
    asked: str = wanted["resources"]["requests"]["storage"]
    given = (now.resources.requests or {}).get("storage", 0)
    if not _same_size(asked, given):
        yield f"size {asked} is wanted and {given} was claimed"
    storage_class = wanted.get("storageClassName")
    if storage_class is not None and storage_class != now.storage_class_name:
        given_class = now.storage_class_name or "none"
        yield f"storageClassName {storage_class} is wanted and it is {given_class}"
    if sorted(wanted["accessModes"]) != sorted(now.access_modes):
        modes = ", ".join(now.access_modes)
        yield f"accessModes {', '.join(wanted['accessModes'])} are wanted and they are {modes}"


def _same_size(asked: object, given: object) -> bool:
    try:
        return parse_quantity(str(asked)).nanos == parse_quantity(str(given)).nanos
    except InvalidQuantity:
        return asked == given


# The Secret with the token of requests to a cluster's Ray; never rotated, as in KubeRay.


def token_secret(identity: Identity, name: str) -> Body:
    """Return the Secret without its token, so that plans, comparisons and logs never hold it."""
    metadata = child_metadata(identity, name, {labels.CLUSTER: identity.name})
    return body_of(SECRETS, metadata, type="Opaque")


def token_data(make: Callable[[], str], now: datetime) -> Mapping[str, Mapping[str, str]]:
    """Return the Secret's data: a new token."""
    del now
    return {"stringData": {TOKEN_KEY: make()}}


# What is seen of these objects, as a value: `child_table.py` makes it.


class Note(msgspec.Struct, frozen=True):
    """A problem of a child that only a person can solve.

    Attributes:
        event: reason of its event.
    """

    event: str
    message: str


class Renewal(msgspec.Struct, frozen=True):
    """A certificate that the operator issues itself, and will issue anew.

    Attributes:
        child: its Secret.
        uid: of that.
        due: when; None for now.
    """

    child: Child
    uid: str
    due: datetime | None


class ObservedCertificates(msgspec.Struct, frozen=True):
    """The observed certificates of a cluster with mTLS.

    Attributes:
        awaited: causes for which no pod is created now: a certificate is not issued yet.
        repairs: writes to their Secrets.
        ends: when each ends, by `Certificate NAME` or `Secret NAME`.
        renewals: those that the operator issues itself.
        since: when their authority was made.
    """

    awaited: tuple[Cause, ...] = ()
    repairs: tuple[Write, ...] = ()
    ends: Mapping[str, datetime] = msgspec.field(default_factory=dict[str, "datetime"])
    renewals: tuple[Renewal, ...] = ()
    since: datetime | None = None


class ObservedChildren(msgspec.Struct, frozen=True):
    """The observed children with fixed names.

    Attributes:
        surplus: the cluster's objects that are no longer desired.
        blocked: causes for which no pod may be created: children that pods need cannot be made.
        groups: the objects that describe the cluster's pods to a batch scheduler.
        certificates: those of its pods.
        notes: other problems that only a person can solve; missing objects are among them.
    """

    head_service: Service | None = None
    absent: tuple[Child, ...] = ()
    drifted: tuple[Drift, ...] = ()
    surplus: tuple[tuple[Resource[Any], KubeObject], ...] = ()
    blocked: tuple[Cause, ...] = ()
    groups: ObservedGroups = NO_GROUPS
    certificates: ObservedCertificates = msgspec.field(default_factory=ObservedCertificates)
    notes: tuple[Note, ...] = ()

    @property
    def notes_message(self) -> str:
        """The sentences of the notes, as the condition has them."""
        return "; ".join(note.message for note in self.notes)
