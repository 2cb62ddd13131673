"""Decides about the claims and the NodePool of a Workspace that is deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from controller.kaito.provisioning.claims import ClaimState

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from controller.kaito.provisioning.claims import ObservedClaim
    from controller.kaito.provisioning.pools import ObservedPool

BOUND = timedelta(minutes=15)
"""Maximum time that the finalizer is kept for claims that do not end: a provider may take minutes
to release nodes, and one that was uninstalled releases none."""


@dataclass(frozen=True, slots=True)
class ClaimRemoval:
    """The next step of a deletion.

    Attributes:
        delete: claims.
        remaining: what is not gone: claims, sorted by name, and what else remains.
        is_over: whether the finalizer may go.
        wake_at: when the bound is reached, None if nothing remains.
    """

    delete: tuple[ObservedClaim, ...] = ()
    remaining: tuple[str, ...] = ()
    is_over: bool = True
    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PoolRemoval:
    """The next step of the deletion of a NodePool, which takes its claims along.

    Attributes:
        delete: the pool, if it is to be deleted.
        remaining: what is not gone: the pool, then its claims.
    """

    delete: ObservedPool | None = None
    remaining: tuple[str, ...] = ()


def remove_pool(
    name: str, pool: ObservedPool | None, claims: Collection[str], *, is_pending: bool
) -> PoolRemoval:
    """Delete the pool once; it is there until its claims are gone too.

    Args:
        name: name of the pool.
        pool: if it exists and belongs to the Workspace.
        claims: names of its claims.
        is_pending: whether the outcome of a write to it is not known.
    """
    is_there = is_pending or pool is not None
    remaining = (*([f"NodePool {name}"] if is_there else []), *_named(claims))
    if is_pending or pool is None or pool.is_terminating:
        return PoolRemoval(None, remaining)
    return PoolRemoval(pool, remaining)


def _named(claims: Collection[str]) -> tuple[str, ...]:
    return tuple(f"NodeClaim {name}" for name in sorted(claims))


def remove_claims(
    claims: Collection[ObservedClaim],
    pending: Collection[str],
    deleted_at: datetime,
    now: datetime,
    others: tuple[str, ...] = (),
) -> ClaimRemoval:
    """Delete all claims, and keep the finalizer until they are gone or the bound has passed.

    A claim whose creation has no known outcome is waited for too: it would stay behind.

    Args:
        claims: all that belong to the Workspace; none if the API server has no such resource.
        pending: names of claims with a write whose outcome is not known.
        deleted_at: when the Workspace was deleted.
        now: the time.
        others: what else remains.
    """
    remaining = (*others, *_named({*pending, *(claim.name for claim in claims)}))
    delete = tuple(
        claim
        for claim in sorted(claims, key=lambda claim: claim.name)
        if claim.state is not ClaimState.TERMINATING and claim.name not in pending
    )
    end = deleted_at + BOUND
    is_over = not remaining or now >= end
    return ClaimRemoval(delete, remaining, is_over, None if is_over else end)
