"""Names of claims and of pools. The same facts give the same name, so nothing is created twice."""

from __future__ import annotations

import hashlib
from typing import Final

_SUFFIX: Final = 9
_LONGEST_POOL_NAME: Final = 63
"""Nodes have the name of their pool in a label."""


def claim_name(uid: str, place: int, generation: int, attempt: int) -> str:
    """Return the name of a NodeClaim, in Kaito's form: `ws` and nine hexadecimal digits.

    Args:
        uid: uid of the Workspace; another Workspace of its name has other claims.
        place: place of the claim among those of its Workspace, from 0.
        generation: how often the whole set was replaced before.
        attempt: how often the claim of this place was replaced before in this generation.
    """
    parts = (uid, str(place), str(generation), str(attempt))
    return f"ws{_digest('/'.join(parts))[:_SUFFIX]}"


def node_pool_name(namespace: str, name: str) -> str:
    """Return Kaito's name of a Workspace's NodePool. Two Workspaces may share one (KAI-9)."""
    full = f"{namespace}-{name}"
    if len(full) <= _LONGEST_POOL_NAME:
        return full
    return f"{full[: _LONGEST_POOL_NAME - 1 - _SUFFIX]}-{_digest(full)[:_SUFFIX]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
