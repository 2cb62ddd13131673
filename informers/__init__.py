"""Informers: local mirrors of Kubernetes collections, kept up to date by list and watch.

A `SharedInformer` reads a `Source` into an indexed `Store` and notifies handlers of changes. It
uses no HTTP: `Source` is the interface to a server. The rules are those of Kubernetes' own
informers; those that need more words have numbers and stand in docs/rules.md (INF-23). Import from
this package; `informers.prometheus` is separate, so that only users of metrics load
prometheus_client.
"""

from informers.codec import Codec
from informers.decoding import LineSplitter, Unbalanced, split_json
from informers.errors import (
    AlreadyStarted,
    ConnectionRefused,
    Disconnected,
    Expired,
    Failed,
    HistoryChanged,
    IndexFunctionError,
    InformerError,
    InformerStopped,
    InternalError,
    InvalidResourceVersion,
    Malformed,
    ResourceVersionTooLarge,
    SourceError,
    Throttled,
    Unsupported,
    error_from_status,
)
from informers.informer import InformerMetrics, InformerStatistics, SharedInformer
from informers.listing import Clock, Source
from informers.processor import Added, Deleted, Handler, Notification, Updated
from informers.store import (
    ApiObject,
    IndexFunction,
    Lister,
    Metadata,
    Store,
    Undecodable,
    is_comparable,
    is_older,
    key_of,
    object_key,
)

__all__ = [
    "Added", "AlreadyStarted", "ApiObject", "Clock", "Codec",
    "ConnectionRefused", "Deleted", "Disconnected", "Expired", "Failed", "Handler",
    "HistoryChanged", "IndexFunction", "IndexFunctionError", "InformerError", "InformerMetrics",
    "InformerStatistics", "InformerStopped", "InternalError", "InvalidResourceVersion",
    "LineSplitter", "Lister", "Malformed", "Metadata", "Notification",
    "ResourceVersionTooLarge", "SharedInformer", "Source", "SourceError", "Store", "Throttled",
    "Unbalanced", "Undecodable", "Unsupported", "Updated", "error_from_status",
    "is_comparable", "is_older", "key_of", "object_key", "split_json",
]  # fmt: skip
