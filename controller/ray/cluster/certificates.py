"""The certificates of a cluster with mTLS, which cert-manager issues: an authority, head, workers.

A self-signed Issuer signs the cluster's authority, whose Issuer signs a certificate for the head
and one that all workers share, with the addresses of the pods there are. Issuers and authority are
made once; names and addresses follow the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339, time_of
from controller.kube.objects import Certificate, KubeObject, Pod
from controller.kube.resources import CERTIFICATES, ISSUERS, SECRETS
from controller.ray.api import labels
from controller.ray.api.pod_state import ray_started
from controller.ray.children import (
    Body,
    Child,
    DesiredFields,
    OwnedKeys,
    as_made,
    body_of,
    child_scope,
)
from controller.ray.cluster.children import Note, ObservedCertificates, child_metadata
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.diagnosis import reasons
from controller.ray.diagnosis.reasons import Cause
from controller.ray.head import Identity
from controller.ray.pods.environment import Role
from controller.ray.pods.features import certificate_secret, uses_certificates
from controller.runtime.kind import CacheReader
from controller.runtime.plan import Replace, Target

LIFETIME: Final = timedelta(days=90)
RENEWED_BEFORE: Final = timedelta(days=15)
"""Of a certificate of head or workers: how long it is valid, and how long before it is renewed."""

_LEAF: Final = {"duration": "2160h0m0s", "renewBefore": "360h0m0s"}
_AUTHORITY: Final = {"duration": "87600h0m0s", "renewBefore": "720h0m0s"}
_FOR_BOTH_SIDES: Final = ("digital signature", "key encipherment", "server auth", "client auth")
_USED: Final = LIFETIME - RENEWED_BEFORE
_SOON: Final = timedelta(days=1)
_NAMED: Final = 3
_RENEWAL: Final = (
    "its conditions, or Ready of the cluster, say why; after its renewal delete the pods, because "
    "Ray reads certificates only when it starts"
)
_REPLACED: Final = (
    "they began with certificates of an authority that is gone, and no pod that starts from now on "
    "finds them: delete these pods, the head last"
)
_ROLES: Final[tuple[Role, ...]] = ("head", "worker")
OBJECTS: Final = (ISSUERS, CERTIFICATES)
"""The resources of cert-manager's API that mTLS needs."""

EXPIRES_SOON: Final = "MTLSCertificateExpiringSoon"
"""KubeRay's reason of the event about a certificate that ends soon."""
_AUTHORITY_REPLACED: Final = "MTLSAuthorityReplaced"


def certificate_children(seen: ClusterObservation) -> Iterator[Child]:
    """Yield the issuers and certificates of a cluster with mTLS."""
    identity = seen.desired.identity
    name, authority = identity.name, authority_secret(identity)
    own, issuer = f"ray-selfsigned-issuer-{name}", f"ray-ca-issuer-{name}"
    spec: Body = {
        "secretName": authority,
        "isCA": True,
        "commonName": f"ray-ca-{name}",
        "privateKey": {"algorithm": "RSA", "size": 4096},
        **_AUTHORITY,
        "usages": ["cert sign", "crl sign"],
        "issuerRef": _issuer(own),
        "secretTemplate": _template(identity),
    }
    body = _body(identity, own, "selfsigned-issuer", {"selfSigned": {}})
    yield Child(ISSUERS, body, desired_fields=as_made)
    body = _body(identity, _of_authority(name), "ca-certificate", spec)
    yield Child(CERTIFICATES, body, desired_fields=_secret_label)
    body = _body(identity, issuer, "ca-issuer", {"ca": {"secretName": authority}})
    yield Child(ISSUERS, body, desired_fields=as_made)
    for role in _ROLES:
        names, addresses = certified(role, seen)
        spec = {
            "secretName": certificate_secret(name, role),
            **_LEAF,
            "dnsNames": names,
            "ipAddresses": addresses,
            "usages": list(_FOR_BOTH_SIDES),
            "issuerRef": _issuer(issuer),
            "secretTemplate": _template(identity),
        }
        body = _body(identity, _of_role(role, name), f"{role}-certificate", spec)
        yield Child(CERTIFICATES, body, desired_fields=_names_and_addresses)


def certified(role: Role, seen: ClusterObservation) -> tuple[list[str], list[str]]:
    """Return the DNS names and the addresses in the certificate of a role, sorted.

    Workers are called by their addresses; the head also by the name of its service.
    """
    own = seen.heads if role == "head" else seen.all_workers
    names = {"localhost", seen.desired.identity.head_fqdn} if role == "head" else {"localhost"}
    addresses = {pod.status.pod_ip for pod in own if _is_live(pod)}
    return sorted(names), sorted({"127.0.0.1", *addresses} - {""})


def _is_live(pod: Pod) -> bool:
    return not pod.metadata.terminating and pod.status.phase not in {"Failed", "Succeeded"}


def authority_secret(identity: Identity) -> str:
    """Return the name of the Secret of the authority, which no cluster of this name had before."""
    return f"{identity.name}-ca-secret-{identity.uid[:8]}"


def _of_authority(cluster: str) -> str:
    return f"ray-ca-certificate-{cluster}"


def _of_role(role: Role, cluster: str) -> str:
    return f"ray-{role}-cert-{cluster}"


def _issuer(name: str) -> Body:
    return {"name": name, "kind": ISSUERS.kind, "group": ISSUERS.group}


def _template(identity: Identity) -> Body:
    """Return the label by which the operator finds the Secret, whose contents it never reads."""
    return {"labels": {labels.CLUSTER: identity.name}}


def _body(identity: Identity, name: str, component: str, spec: Body) -> Body:
    resource = CERTIFICATES if "secretName" in spec else ISSUERS
    metadata = child_metadata(identity, name)
    metadata["labels"][labels.COMPONENT] = component
    return body_of(resource, metadata, spec=spec)


def _secret_label(
    body: Mapping[str, Any], _present: Certificate, _formerly: OwnedKeys
) -> DesiredFields:
    """Return the label of the Secret alone, which the certificates of KubeRay lack."""
    return DesiredFields({"spec": {"secretTemplate": body["spec"]["secretTemplate"]}})


def _names_and_addresses(
    body: Mapping[str, Any], present: Certificate, formerly: OwnedKeys
) -> DesiredFields:
    """Return labels, and the names and addresses if they are others, in whatever order."""
    spec: Body = dict(_secret_label(body, present, formerly).fields["spec"])
    for key, now in (
        ("dnsNames", present.spec.dns_names),
        ("ipAddresses", present.spec.ip_addresses),
    ):
        if {*body["spec"][key]} != {*now}:
            spec[key] = body["spec"][key]
    return DesiredFields({"metadata": {"labels": body["metadata"]["labels"]}, "spec": spec})


# What became of them.


def observe_certificates(
    identity: Identity, reads: CacheReader, *, are_issued: bool = False
) -> ObservedCertificates:
    """Observe the certificates of a cluster with mTLS; whether to take them for issued."""
    missing = [each for each in OBJECTS if not reads.serves(each)]
    if missing:
        return ObservedCertificates((_no_api(missing),))
    awaited: list[Cause] = []
    repairs: list[Replace] = []
    ends: dict[str, datetime] = {}
    found = {
        _of_role(role, identity.name): certificate_secret(identity.name, role) for role in _ROLES
    }
    found[_of_authority(identity.name)] = authority_secret(identity)
    for name, secret_name in found.items():
        present = reads.get(CERTIFICATES, f"{identity.namespace}/{name}")
        cause = _not_issued(name, present)
        if cause is not None and not are_issued and name != _of_authority(identity.name):
            awaited.append(cause)
        if present is None:
            continue
        if (end := time_of(present.status.not_after)) is not None:
            ends[child_scope(CERTIFICATES, name)] = end
        secret = reads.get(SECRETS, f"{identity.namespace}/{secret_name}")
        if secret is not None and not secret.metadata.terminating:
            repairs += _adoption(identity, present, secret)
    return ObservedCertificates(tuple(awaited), tuple(repairs), ends)


def _no_api(missing: Sequence[Any]) -> Cause:
    return Cause(
        reasons.CERT_MANAGER_MISSING,
        "cluster",
        f"spec.tlsOptions needs cert-manager: the API server does not serve "
        f"{' and '.join(map(str, missing))} in {CERTIFICATES.api_version}, or does not let the "
        "operator list them; install cert-manager, grant the operator the verbs get, list, watch, "
        "create and update on both, let it issue certificates itself (--mtls-issuer=manta), or "
        "remove the field; no pod is created before",
        blocks_head=True,
        event=reasons.INVALID_SPEC.name,
    )


def _not_issued(name: str, present: Certificate | None) -> Cause | None:
    """Return why pods wait for a certificate; None if it is as its specification says."""
    scope, begun, detail = child_scope(CERTIFICATES, name), None, "it does not exist yet"
    if present is not None:
        ready = next((c for c in present.status.conditions if c.type == "Ready"), None)
        generation, begun = present.metadata.generation, present.metadata.creation_timestamp
        detail = "cert-manager has said nothing of it yet"
        if ready is not None:
            if ready.status == "True" and ready.observed_generation in {generation, None}:
                return None
            if ready.status == "True":
                begun, detail = None, "cert-manager has not read its last change yet"
            else:
                begun = ready.last_transition_time
                detail = f"{ready.reason}: {ready.message or 'without a message'}"
    return Cause(
        reasons.CERTIFICATE_PENDING,
        scope,
        f"pods wait until it is issued; {detail}",
        blocks_head=True,
        since=time_of(begun),
        event="MTLSCertsNotReady",
    )


def _adoption(
    identity: Identity, certificate: Certificate, secret: KubeObject
) -> Iterator[Replace]:
    """Yield the write that makes the Certificate an owner of its Secret."""
    meta, owners = secret.metadata, secret.metadata.owner_references
    if any(each.uid == certificate.metadata.uid for each in owners):
        return
    own: Body = {
        "apiVersion": CERTIFICATES.api_version,
        "kind": CERTIFICATES.kind,
        "name": certificate.metadata.name,
        "uid": certificate.metadata.uid,
    }
    others = [
        {key: value for key, value in msgspec.to_builtins(each).items() if value is not None}
        for each in owners
    ]
    target = Target(SECRETS, identity.namespace, meta.name, child_scope(SECRETS, meta.name))
    yield Replace(target, meta.uid, {"metadata": {"ownerReferences": [*others, own]}})


# What ends: certificates that nobody renews, and pods that began with one that was renewed since.


def with_expiry(seen: ClusterObservation) -> ClusterObservation:
    """Return the observation with notes about what ends soon."""
    notes, _ = expiring(seen)
    if not notes:
        return seen
    children = replace(seen.children, notes=(*seen.children.notes, *notes))
    return replace(seen, children=children)


def expiring(seen: ClusterObservation) -> tuple[tuple[Note, ...], float | None]:
    """Return notes about what ends soon, and the seconds until there is another one."""
    ends, since, now = seen.children.certificates.ends, seen.children.certificates.since, seen.now
    due = [
        (
            end - _SOON,
            f"{name} ends at {rfc3339(end)} and was not renewed: {_RENEWAL}",
        )
        for name, end in ends.items()
    ]
    holders = [pod for pod in seen.all_pods if uses_certificates(pod)]
    if not (due or holders):
        return (), None
    began = {pod.metadata.name: start for pod in holders if (start := ray_started(pod)) is not None}
    if began:
        first = min(began.values()) + LIFETIME
        listed = _some(name for name, start in began.items() if start + _USED <= now)
        hint = f"the certificate with which they began ends at {rfc3339(first)}: delete these pods"
        due.append((first - RENEWED_BEFORE, f"{listed}: {hint} before, the head last"))
    notes = [Note(EXPIRES_SOON, sentence) for moment, sentence in due if moment <= now]
    former = _some(name for name, start in began.items() if since is not None and start < since)
    if former:
        notes.append(Note(_AUTHORITY_REPLACED, f"{former}: {_REPLACED}"))
    return tuple(notes), seen.seconds_until(moment for moment, _ in due)


def _some(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:_NAMED]) + (" and others" if found[_NAMED:] else "")
