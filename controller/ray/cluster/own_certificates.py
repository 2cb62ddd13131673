"""The certificates of a cluster with mTLS where the operator is the issuer, without cert-manager.

An authority, and a certificate each for the head and for all workers, in the Secrets that
cert-manager would write. Planning sees only their metadata: keys are made while a Secret is
written, and are kept nowhere else. The Secret of the authority cannot be changed, so that its uid
names it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, cast

from controller.apimachinery.conditions import rfc3339, time_of
from controller.apimachinery.custom_object import mapping
from controller.apimachinery.metadata import is_owned_by, owns_field
from controller.kube.objects import ObjectMeta, Secret, SecretMeta
from controller.kube.resources import SECRETS
from controller.ray.api import labels
from controller.ray.children import (
    Body,
    Child,
    as_made,
    body_of,
    child_scope,
)
from controller.ray.cluster.certificates import (
    LIFETIME,
    RENEWED_BEFORE,
    authority_secret,
    certified,
)
from controller.ray.cluster.children import ObservedCertificates, Renewal, child_metadata
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.diagnosis import reasons
from controller.ray.diagnosis.reasons import Cause
from controller.ray.head import Identity
from controller.ray.pods.environment import Role
from controller.ray.pods.features import certificate_secret
from controller.runtime.kind import CacheReader
from controller.runtime.plan import Event, Replace, SecretContent, Target

_AUTHORITY_LIFETIME: Final = timedelta(days=36500)
"""Longer than any cluster lives: another authority would mean to replace all pods at once."""

_AUTHORITY: Final = "ca-certificate"
_ROLES: Final[tuple[Role, ...]] = ("head", "worker")
_COMPONENTS: Final = frozenset({_AUTHORITY, *(f"{role}-certificate" for role in _ROLES)})
_KEYS: Final = ("ca.crt", "tls.crt", "tls.key")
_LONGEST_NAME: Final = 64  # of a subject in X.509


def own_certificates(
    seen: ClusterObservation, reads: CacheReader
) -> tuple[tuple[Child, ...], ObservedCertificates]:
    """Return the Secrets of a cluster with mTLS, and what is observed of them.

    Those of head and workers follow when the authority exists. Pods wait for that.
    """
    identity = seen.desired.identity
    first = _secret(identity, authority_secret(identity), _AUTHORITY, {}, immutable=True)
    content = SecretContent(partial(_new_authority, f"ray-ca-{identity.name}"[:_LONGEST_NAME]))
    children = [Child(SECRETS, first, desired_fields=as_made, secret=content)]
    authority = _present(identity, authority_secret(identity), reads)
    if authority is None:
        scope = child_scope(SECRETS, authority_secret(identity))
        message = "pods wait until it is issued; the authority of the cluster does not exist yet"
        waiting = Cause(reasons.CERTIFICATE_PENDING, scope, message, blocks_head=True)
        return tuple(children), ObservedCertificates((waiting,))
    ends = _ends(authority)
    renewals: list[Renewal] = []
    for role in _ROLES:
        child = _certificate(role, seen, authority)
        children.append(child)
        present = _present(identity, child.name, reads)
        if present is None:
            continue
        ends |= _ends(present)
        end, issued_for = ends.get(child.scope), child.body["metadata"]["annotations"]
        is_current = issued_for.items() <= _annotations(present).items() and _is_as_issued(present)
        due = end - RENEWED_BEFORE if is_current and end is not None else None
        renewals.append(Renewal(child, present.uid, due))
    since = time_of(authority.creation_timestamp)
    return tuple(children), ObservedCertificates((), (), ends, tuple(renewals), since)


def renewal_writes(seen: ClusterObservation, namespace: str) -> Iterator[Replace]:
    """Yield the writes of what is to be issued anew: its names have changed, or its end is near."""
    for each in seen.children.certificates.renewals:
        if (each.due is None or each.due <= seen.now) and each.child.secret is not None:
            target = Target(SECRETS, namespace, each.child.name, each.child.scope)
            note = f"Issued the certificate in Secret {each.child.name} anew"
            yield Replace(
                target,
                each.uid,
                {"metadata": {"annotations": each.child.body["metadata"]["annotations"]}},
                on_success=Event("Normal", "MTLSCertificatesUpdated", "Update", note),
                secret=SecretContent(partial(each.child.secret, seen.now)),
                reads=each.child.reads,
            )


def is_own_certificate(meta: ObjectMeta) -> bool:
    """Return whether a Secret of a cluster was written here."""
    return (meta.labels or {}).get(labels.COMPONENT) in _COMPONENTS


def _present(identity: Identity, name: str, reads: CacheReader) -> SecretMeta | None:
    found: Secret | None = reads.get(SECRETS, f"{identity.namespace}/{name}")
    if found is None or found.metadata.terminating:
        return None
    return found.metadata if is_owned_by(found.metadata, identity.uid) else None


def _is_as_issued(meta: SecretMeta) -> bool:
    """Return whether who wrote when the certificate ends, the issuer, wrote it and its key last.

    The server says so by names of fields, so that the key need not be read.
    """
    issuers = _writers(meta, "metadata", "annotations", labels.CERTIFICATE_END)
    return not issuers or all(issuers & _writers(meta, "data", key) for key in _KEYS[1:])


def _writers(meta: SecretMeta, *path: str) -> set[str]:
    return {each.manager for each in meta.managed_fields if owns_field(each.fields, path)}


def _ends(meta: ObjectMeta) -> dict[str, datetime]:
    end = time_of(_annotations(meta).get(labels.CERTIFICATE_END))
    if end is None and (created := time_of(meta.creation_timestamp)) is not None:
        end = created + LIFETIME
    return {} if end is None else {child_scope(SECRETS, meta.name): end}


def _annotations(meta: ObjectMeta) -> Mapping[str, str]:
    return meta.annotations or {}


def _secret(
    identity: Identity, name: str, component: str, annotations: Mapping[str, str], **fields: Any
) -> Body:
    """Return the Secret without its contents, so that plans, comparisons and logs never hold it."""
    metadata = child_metadata(identity, name)
    metadata["labels"][labels.COMPONENT] = component
    metadata["annotations"] = annotations
    return body_of(
        SECRETS, metadata, type="kubernetes.io/tls", data=dict.fromkeys(_KEYS, ""), **fields
    )


def _certificate(role: Role, seen: ClusterObservation, authority: ObjectMeta) -> Child:
    identity, (names, addresses) = seen.desired.identity, certified(role, seen)
    hosts = (*names, *addresses)
    name = certificate_secret(identity.name, role)
    issued_for = "\n".join((authority.uid, *hosts)).encode()
    annotations = {labels.CERTIFICATE_OF: hashlib.sha256(issued_for).hexdigest()}
    body = _secret(identity, name, f"{role}-certificate", annotations)
    content = SecretContent(partial(_new_certificate, name[:_LONGEST_NAME], hosts, authority))
    source = Target(SECRETS, identity.namespace, authority.name)
    return Child(SECRETS, body, desired_fields=as_made, secret=content, reads=source)


# What is made while a Secret is written. `cryptography` is loaded where there is such a cluster.


def _new_authority(name: str, now: datetime) -> Body:
    from controller.apimachinery.certificates import Authority  # noqa: PLC0415

    made = Authority.new(name, now, _AUTHORITY_LIFETIME)
    return _part(now + _AUTHORITY_LIFETIME, made.certificate, made.certificate, made.key)


def _new_certificate(
    name: str,
    hosts: tuple[str, ...],
    authority: ObjectMeta,
    now: datetime,
    source: Mapping[str, Any],
) -> Body:
    """Return what a certificate adds to its Secret.

    Raises:
        ValueError: the Secret of the authority is another one, or has no usable key.
    """
    from controller.apimachinery.certificates import Authority  # noqa: PLC0415

    if mapping(source.get("metadata")).get("uid") != authority.uid:
        raise ValueError(f"Secret {authority.name} was replaced")
    found = cast("Mapping[str, str]", mapping(source.get("data")))
    try:
        certificate, key = (base64.b64decode(found[each]) for each in ("tls.crt", "tls.key"))
        issuer = Authority(certificate, key)
        made = issuer.issue(name, hosts, now, LIFETIME, for_clients=True)
    except (KeyError, TypeError, ValueError):  # whose text may quote what it could not read
        message = "holds no usable authority; delete it, and then the pods of the cluster"
        raise ValueError(f"Secret {authority.name} {message}") from None
    return _part(now + LIFETIME, certificate, made.chain, made.key)


def _part(end: datetime, *contents: bytes) -> Body:
    data = {
        key: base64.b64encode(content).decode()
        for key, content in zip(_KEYS, contents, strict=True)
    }
    return {"metadata": {"annotations": {labels.CERTIFICATE_END: rfc3339(end)}}, "data": data}
