"""A queue of keys for controllers: deduplicating, delaying, rate-limited, with ageing priorities.

It knows nothing of Kubernetes. Begin reading in `queue.py`.
"""

from workqueue.backoff import Backoff
from workqueue.clock import Clock, TimerHandle
from workqueue.delay_queue import DelayQueue
from workqueue.heap import KeyHeap
from workqueue.metrics import QueueMetrics, QueueRecorder, QueueStatistics
from workqueue.queue import LOW_PRIORITY, Closed, WorkQueue

__all__ = [
    "LOW_PRIORITY",
    "Backoff",
    "Clock",
    "Closed",
    "DelayQueue",
    "KeyHeap",
    "QueueMetrics",
    "QueueRecorder",
    "QueueStatistics",
    "TimerHandle",
    "WorkQueue",
]
