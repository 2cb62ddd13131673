"""Names of children, computed from what was observed, so that a repeated create makes no duplicate.

The same observed state gives the same names and any later state gives others (docs/design.md): a
lost answer is harmless, because the repetition meets its own object, and no name comes back.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: no vowels, so no words."""

SUFFIX_LENGTH = 8

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
    limit: int = 63,
) -> str:
    """Return `<prefix>-<8 characters>`, at most `limit` long; the prefix's end is cut to fit.

    Args:
        prefix: readable part, `<cluster>-<group>-worker`.
        owner_uid: uid of the controller owner, so that an owner of the same name created later has
            other children.
        group: part of the owner that counts these children.
        position: position in the batch being created.
        revision: newest revision observed, `CacheReader.revision`.
        limit: longest name that the resource allows.
    """
    room = limit - SUFFIX_LENGTH - 1
    cut = prefix[:room].rstrip("-.")
    return f"{cut}-{suffix(owner_uid, group, str(position), revision)}"


def short_child_name(owner: ObjectMeta, what: str, moment: str) -> str:
    """Return `<owner>-<5 characters>`, KubeRay's form.

    Args:
        owner: metadata of the owner.
        what: part of the owner that the child is.
        moment: revision of the owner at which the name is chosen.
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
