"""Names of children, computed from what was observed, so that a repeated create makes no duplicate.

The same observed state gives the same names and any later state gives others, as
docs/architecture.md explains: a lost answer is harmless, because the repetition meets its own
object, and no name comes back.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from controller.kube.objects import ObjectMeta

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
