"""Decides which of several operators may write: a Lease, a candidate for it, and its thread."""

from controller.runtime.leaderelection.election import (
    FencedTransport,
    ThreadedElection,
    awake_or_not,
)
from controller.runtime.leaderelection.elector import Elector
from controller.runtime.leaderelection.lock import (
    ElectionMetrics,
    ElectionTiming,
    LeaseLock,
    election_client,
)

__all__ = [
    "ElectionMetrics",
    "ElectionTiming",
    "Elector",
    "FencedTransport",
    "LeaseLock",
    "ThreadedElection",
    "awake_or_not",
    "election_client",
]
