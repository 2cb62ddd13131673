"""Transforms objects before they are stored, with a fallback for failures (INF-31)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic

from informers.objects import T, key_of

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class Transform(Generic[T]):
    """Wraps a function from object to object, which must keep name, namespace and uid.

    If the function raises, the object is stored unchanged, because a missing object does more
    harm than a large one. If it redacts secrets, only the metadata is stored.

    Args:
        function: applied once to each object.
        redacting: whether an object must never be stored unchanged.

    Attributes:
        failures: number of exceptions of the function.
    """

    def __init__(self, function: Callable[[T], T], *, redacting: bool = False) -> None:
        self._function = function
        self._redacting = redacting
        self.failures = 0

    def __call__(self, obj: T) -> T:
        """Apply the function or the fallback."""
        try:
            return self._function(obj)
        except Exception:  # noqa: BLE001  the function may raise anything; no object must get lost
            self.failures += 1
            _log.exception("the transform failed on %s", key_of(obj))
            return _metadata_only(obj) if self._redacting else obj


def _metadata_only(obj: T) -> T:
    view: Any = type(obj)
    return view(metadata=obj.metadata)
