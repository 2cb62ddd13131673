"""Decides which of several operators may write: a Lease, a candidate for it, and its thread."""

from controller.runtime.leaderelection.elector import Elector
from controller.runtime.leaderelection.fenced_transport import FencedTransport
from controller.runtime.leaderelection.lock import LeaseLock, election_client
from controller.runtime.leaderelection.metrics import ElectionMetrics
from controller.runtime.leaderelection.threaded import ThreadedElection, awake_or_not
from controller.runtime.leaderelection.timing import ElectionTiming

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
