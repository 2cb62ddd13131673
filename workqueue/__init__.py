"""A queue of keys for controllers: deduplicating, delaying, rate-limited, with ageing priorities.

It is independent of Kubernetes. Start reading in `queue.py`. Import from this package;
`workqueue.prometheus` is separate, so that only users of metrics load prometheus_client.
"""

from workqueue.backoff import Backoff
from workqueue.clock import Clock, TimerHandle
from workqueue.delay_queue import DelayQueue
from workqueue.heap import KeyHeap
from workqueue.metrics import QueueMetrics, QueueRecorder, QueueStatistics
from workqueue.queue import LOW_PRIORITY, Closed, WorkQueue
from workqueue.snapshot import FailingKey, QueueSnapshot, RunningKey
from workqueue.workers import Workers

__all__ = [
    "LOW_PRIORITY",
    "Backoff",
    "Clock",
    "Closed",
    "DelayQueue",
    "FailingKey",
    "KeyHeap",
    "QueueMetrics",
    "QueueRecorder",
    "QueueSnapshot",
    "QueueStatistics",
    "RunningKey",
    "TimerHandle",
    "WorkQueue",
    "Workers",
]
