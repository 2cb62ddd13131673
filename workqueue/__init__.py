"""A queue of keys for controllers: deduplicating, delaying, rate-limited, with ageing priorities.

It is independent of Kubernetes. Start reading in `queue.py`. Import from this package;
`workqueue.prometheus` is separate, so that only users of metrics load prometheus_client.
"""

from workqueue.queue import (
    LOW_PRIORITY,
    Closed,
    FailingKey,
    QueueMetrics,
    QueueRecorder,
    QueueSnapshot,
    QueueStatistics,
    RunningKey,
    WorkQueue,
)
from workqueue.waiting import Backoff, Clock, DelayQueue, KeyHeap, TimerHandle
from workqueue.workers import Workers

__all__ = [
    "LOW_PRIORITY", "Backoff", "Clock", "Closed", "DelayQueue", "FailingKey", "KeyHeap",
    "QueueMetrics", "QueueRecorder", "QueueSnapshot", "QueueStatistics", "RunningKey",
    "TimerHandle", "WorkQueue", "Workers",
]  # fmt: skip
