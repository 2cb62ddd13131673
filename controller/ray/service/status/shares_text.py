"""Describes how two clusters share capacity and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.service.status.facts import collect_facts

if TYPE_CHECKING:
    from controller.ray.service.observation import ServiceObservation
    from controller.ray.service.settings import ServiceSettings


def shares_text(seen: ServiceObservation, settings: ServiceSettings) -> str:
    """Return a sentence about a valid RayService with an active and a pending cluster."""
    assert seen.active is not None
    assert seen.pending is not None
    facts = collect_facts(seen, settings)
    active, pending, shares = seen.active.name, seen.pending.name, facts.shares
    if not facts.incremental:
        return f"cluster {active} gets all requests until cluster {pending} serves"
    return (
        f"cluster {active} has {shares.active_capacity} % of its capacity and gets "
        f"{shares.active_weight} % of the requests; cluster {pending} has "
        f"{shares.pending_capacity} % and gets {shares.pending_weight} %"
    )
