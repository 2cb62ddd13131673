"""Informers: mirrors of Kubernetes collections, always a list plus everything that came after.

A `SharedInformer` reads a `Source` into an indexed `Store` and tells handlers what changes. It
knows no HTTP: `Source` is the seam. The rules it keeps are those of Kubernetes' own informers,
quoted by number (INF-23) where they are kept.
"""

from informers.backoff import BackoffSettings
from informers.clock import Clock
from informers.codec import Codec
from informers.errors import (
    AlreadyStarted,
    ConnectionRefused,
    Disconnected,
    Expired,
    Failed,
    InconsistentState,
    IndexFunctionError,
    InformerError,
    InformerStopped,
    InternalError,
    InvalidResourceVersion,
    Malformed,
    NotWatched,
    ResourceVersionTooLarge,
    ShapeConflict,
    SourceError,
    Throttled,
    Unsupported,
    error_from_status,
)
from informers.factory import InformerFactory, WatchSelection
from informers.handlers import Handler, HandlerRegistration, HandlerStatistics
from informers.informer import InformerMetrics, SharedInformer
from informers.objects import (
    ApiObject,
    IndexFunction,
    Metadata,
    Tombstone,
    key_of,
    object_key,
    split_key,
)
from informers.processor import Added, Deleted, Notification, Updated
from informers.revisions import compare_resource_versions, is_comparable, is_older
from informers.settings import ReflectorSettings
from informers.source import Source
from informers.statistics import InformerStatistics
from informers.store import Lister, Store
from informers.transform import Transform

__all__ = [
    "Added",
    "AlreadyStarted",
    "ApiObject",
    "BackoffSettings",
    "Clock",
    "Codec",
    "ConnectionRefused",
    "Deleted",
    "Disconnected",
    "Expired",
    "Failed",
    "Handler",
    "HandlerRegistration",
    "HandlerStatistics",
    "InconsistentState",
    "IndexFunction",
    "IndexFunctionError",
    "InformerError",
    "InformerFactory",
    "InformerMetrics",
    "InformerStatistics",
    "InformerStopped",
    "InternalError",
    "InvalidResourceVersion",
    "Lister",
    "Malformed",
    "Metadata",
    "NotWatched",
    "Notification",
    "ReflectorSettings",
    "ResourceVersionTooLarge",
    "ShapeConflict",
    "SharedInformer",
    "Source",
    "SourceError",
    "Store",
    "Throttled",
    "Tombstone",
    "Transform",
    "Unsupported",
    "Updated",
    "WatchSelection",
    "compare_resource_versions",
    "error_from_status",
    "is_comparable",
    "is_older",
    "key_of",
    "object_key",
    "split_key",
]
