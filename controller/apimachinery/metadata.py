"""Owners and names of objects.

The owner decides who counts, changes and deletes an object (CTL-28). It is the one owner reference
with `controller: true`, compared by uid. A cluster-scoped object cannot name a namespaced owner in
a reference: its label `manta.dev/owner-uid` does. Labels of objects in a namespace never express
ownership.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller.kube.objects import KubeObject, ObjectMeta, OwnerReference
from controller.kube.resources import Resource

OWNER_UID: Final = "manta.dev/owner-uid"
"""Label of a cluster-scoped object with the uid of the namespaced object that owns it."""


def owner_reference(resource: Resource[Any], meta: ObjectMeta) -> dict[str, Any]:
    """Return the controller owner reference that makes a child belong to `meta`'s object."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_uid(meta: ObjectMeta) -> str:
    """Return the uid of the object's owner, empty if it has none."""
    controller = meta.controller
    return controller.uid if controller is not None else _named_owner(meta)


def requested_owner(metadata: Mapping[str, Any], namespace: str) -> str:
    """Return the uid of the owner that an object to be created names, empty if it names none."""
    references: list[Mapping[str, Any]] = metadata.get("ownerReferences") or []
    for reference in references:
        if reference.get("controller"):
            return reference["uid"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    return "" if namespace else labels.get(OWNER_UID, "")


def is_owned_by(meta: ObjectMeta, uid: str) -> bool:
    """Return whether the object's owner is the one with this uid."""
    controller = meta.controller
    if controller is not None:
        return controller.uid == uid
    return bool(uid) and _named_owner(meta) == uid


def ownership_text(meta: ObjectMeta | None) -> str:
    """Return a predicate for messages about conflicts: `belongs to RayJob nightly (uid 4d1f)`.

    Args:
        meta: metadata of the object; None if only a failed create has shown that it exists.
    """
    if meta is None:
        return "belongs to another owner"
    owner = meta.controller
    if owner is None:
        uid = owner_uid(meta)
        return f"belongs to the object with uid {uid}" if uid else "belongs to no controller"
    return f"belongs to {owner.kind} {owner.name} (uid {owner.uid})"


def index_by_owner(obj: KubeObject) -> Sequence[str]:
    """Index by `owner`: yield the uid of the owner, if there is one."""
    controller = obj.metadata.controller
    if controller is not None:
        return (controller.uid,)
    uid = _named_owner(obj.metadata)
    return (uid,) if uid else ()


def _named_owner(meta: ObjectMeta) -> str:
    """Return the owner that the label names, empty if it names none."""
    return "" if meta.namespace else (meta.labels or {}).get(OWNER_UID, "")


def api_group(api_version: str) -> str | None:
    """Return the group of `group/version`, empty for the core group, None if it is malformed."""
    parts = api_version.split("/")
    if len(parts) > 2 or not all(parts):
        return None
    return parts[0] if len(parts) == 2 else ""


def refers_to(reference: OwnerReference, resource: Resource[Any]) -> bool:
    """Return whether `reference` names an object of `resource`, whatever its version (CTL-21)."""
    return reference.kind == resource.kind and api_group(reference.api_version) == resource.group


def owns_field(fields: Mapping[str, Any] | None, path: Sequence[str]) -> bool:
    """Return whether a set of fields (`f:spec: {f:type: {}}`) contains the field, or a part of it.

    An empty set stands for everything below, where the server does not divide a map or list.
    """
    for name in path:
        if fields is None:
            return False
        if not fields:
            return True
        fields = fields.get(f"f:{name}")
    return fields is not None


# Names of children, computed from what was observed, so that a repeated create makes no duplicate.
#
# The same observed state gives the same names and any later state gives others, as
# docs/architecture.md explains: a lost answer is harmless, because the repetition meets its own
# object, and no name comes back.

# The syntax of names, label keys and label values.

_NAME_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def is_dns_label(value: str) -> bool:
    """Return whether `value` is at most 63 lower-case letters, digits and inner dashes."""
    return len(value) <= 63 and _DNS_LABEL.fullmatch(value) is not None


def is_dns_1035_label(value: str) -> bool:
    """Return whether `value` is a DNS label that begins with a letter."""
    return len(value) <= 63 and _DNS_1035_LABEL.fullmatch(value) is not None


def is_qualified_name(key: str) -> bool:
    """Return whether `key` may be the key of a label: `name` or `dns.prefix/name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not _is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and _NAME_PART.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Return whether `value` may be the value of a label; the empty string may."""
    return not value or (len(value) <= 63 and _NAME_PART.fullmatch(value) is not None)


def _is_dns_subdomain(value: str) -> bool:
    parts = value.split(".")
    return len(value) <= 253 and all(_DNS_LABEL.fullmatch(part) for part in parts)


ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: no vowels, so no words."""

SUFFIX_LENGTH = 8

_LONGEST = 63
"""Maximum characters of a name: pods' names become labels and host names."""

_SHORT_SUFFIX_LENGTH = 5
"""KubeRay's length; the limits on names of RayJobs and RayServices leave room for no more."""

_GENERATED = re.compile(rf".+-(?=\d*[a-z])[{ALPHABET}]{{5}}(?:[{ALPHABET}]{{3}})?")
"""Matches suffixes of 8 characters, or 5 for short names; digits alone are a number instead."""


def child_name(
    prefix: str,
    *,
    owner_uid: str,
    group: str,
    position: int,
    revision: str,
) -> str:
    """Return `<prefix>-<8 characters>`, at most 63 long; the prefix's end is cut to fit.

    Args:
        prefix: readable part, `<cluster>-<group>-worker`.
        owner_uid: uid of the controller owner, so that an owner of the same name created later has
            other children.
        group: part of the owner that counts these children.
        position: position in the batch being created.
        revision: newest revision observed, `CacheReader.revision`.
    """
    room = _LONGEST - SUFFIX_LENGTH - 1
    cut = prefix[:room].rstrip("-.")
    return f"{cut}-{suffix(owner_uid, group, str(position), revision)}"


def short_child_name(owner: ObjectMeta, what: str, moment: str) -> str:
    """Return `<owner>-<5 characters>`, KubeRay's form.

    They depend on the part of the owner that the child is, and on the owner's revision then.
    """
    return f"{owner.name}-{suffix(owner.uid, what, moment)[:_SHORT_SUFFIX_LENGTH]}"


def suffix(*parts: str) -> str:
    """Return eight characters of `ALPHABET` that depend on all `parts` and their order."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    number = int.from_bytes(digest, "big")
    characters: list[str] = []
    for _ in range(SUFFIX_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        characters.append(ALPHABET[digit])
    return "".join(characters)


def has_generated_suffix(name: str) -> bool:
    """Return whether the name ends as one does that was made with `suffix`."""
    return _GENERATED.fullmatch(name) is not None
