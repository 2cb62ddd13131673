"""Encodes plain data as request bodies.

Only dictionaries, lists and scalars are accepted. A partial view lacks fields of its object, so
writing it back would delete them on the server: `encode` rejects a view at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

_SCALARS = frozenset({str, int, float, bool, type(None)})

_encode = msgspec.json.Encoder().encode


def encode(body: Any) -> bytes:
    """Encode plain data as JSON.

    Raises:
        TypeError: the body contains a `msgspec.Struct` or another value that is not plain data.
    """
    _refuse_views(body)
    return _encode(body)


def _refuse_views(body: Any) -> None:
    values: list[object] = [body]
    for value in values:  # grows during the iteration
        kind: type[object] = type(value)
        if kind in _SCALARS:
            continue
        if isinstance(value, list | tuple):
            values.extend(cast("list[Any]", value))
        elif kind is dict or isinstance(value, Mapping):
            values.extend(cast("Mapping[Any, Any]", value).values())
        elif not isinstance(value, str | int | float | msgspec.Raw):
            raise TypeError(
                f"{kind.__name__} is no plain data; a partial view must never be written back"
            )
