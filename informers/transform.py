"""A change to every object on its way into the store, with a way out when it fails (INF-31)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic

from informers.objects import T, key_of

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class Transform(Generic[T]):
    """Wraps a function from object to object that must keep name, namespace and uid.

    If it raises, the object is kept as it came, since a missing object does more harm than a
    large one. If it is there to hide something (`redacting`), only the metadata is kept.

    Args:
        function: what to apply. It is applied once to each object.
        redacting: whether an object must never be kept as it came.

    Attributes:
        failures: how often the function raised.
    """

    def __init__(self, function: Callable[[T], T], *, redacting: bool = False) -> None:
        self._function = function
        self._redacting = redacting
        self.failures = 0

    def __call__(self, obj: T) -> T:
        """Apply the function, or fall back."""
        try:
            return self._function(obj)
        except Exception:  # noqa: BLE001  somebody else's code: an object must not get lost
            self.failures += 1
            _log.exception("the transform failed on %s", key_of(obj))
            return _metadata_only(obj) if self._redacting else obj


def _metadata_only(obj: T) -> T:
    view: Any = type(obj)
    return view(metadata=obj.metadata)
