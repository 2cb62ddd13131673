"""Decides about the claims of a Workspace that is deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from controller.kaito.provisioning.claims import ClaimState

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from controller.kaito.provisioning.claims import ObservedClaim

BOUND = timedelta(minutes=15)
"""The finalizer stays so long for claims that do not go: nodes may take minutes to be given back,
and a provider that is gone gives none back."""


@dataclass(frozen=True, slots=True)
class ClaimRemoval:
    """The next step of a deletion.

    Attributes:
        delete: claims.
        remaining: names of claims that are not gone, sorted.
        is_over: whether the finalizer may go.
        wake_at: when the bound is reached, None if nothing is waited for.
    """

    delete: tuple[ObservedClaim, ...] = ()
    remaining: tuple[str, ...] = ()
    is_over: bool = True
    wake_at: datetime | None = None


def remove_claims(
    claims: Collection[ObservedClaim],
    pending: Collection[str],
    deleted_at: datetime,
    now: datetime,
) -> ClaimRemoval:
    """Delete all claims, and keep the finalizer until they are gone or the bound has passed.

    A claim whose creation has no known outcome is waited for too: it would stay behind.

    Args:
        claims: all that belong to the Workspace; none if the API server has no such resource.
        pending: names of claims with a write whose outcome is not known.
        deleted_at: when the Workspace was deleted.
        now: the time.
    """
    remaining = tuple(sorted({*pending, *(claim.name for claim in claims)}))
    delete = tuple(
        claim
        for claim in sorted(claims, key=lambda claim: claim.name)
        if claim.state is not ClaimState.TERMINATING and claim.name not in pending
    )
    end = deleted_at + BOUND
    is_over = not remaining or now >= end
    return ClaimRemoval(delete, remaining, is_over, None if is_over else end)
