"""Metrics of leader election, with the names that client-go and controller-runtime use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class ElectionMetrics:
    """Metrics of the election: leadership, and renewals that needed a read (LE-6, LE-12).

    Args:
        registry: where they are registered.
        name: name of the lease.
    """

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        self._leads = Gauge(
            "leader_election_master_status",
            "Whether this process holds the lease: 1, or 0",
            ("name",),
            registry=registry,
        ).labels(name)
        self._slow = Counter(
            "leader_election_slowpath",
            "Renewals that had to read the lease first, because another client had written it",
            ("name",),
            registry=registry,
        ).labels(name)

    def leads(self, *, leads: bool) -> None:
        """Record whether this process leads."""
        self._leads.set(leads)

    def slow_path(self) -> None:
        """Count a renewal that had to read the lease first."""
        self._slow.inc()
