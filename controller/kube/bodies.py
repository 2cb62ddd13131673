"""Plain data to request bodies.

Only dictionaries, lists and scalars pass. A partial view has dropped fields, so writing it back
would delete them on the server: it is refused wherever in the body it hides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

_SCALARS = frozenset({str, int, float, bool, type(None)})

_encode = msgspec.json.Encoder().encode


def encode(body: Any) -> bytes:
    """The JSON form of plain data.

    Raises:
        TypeError: something in it is a `msgspec.Struct` or otherwise not plain.
    """
    _refuse_views(body)
    return _encode(body)


def _refuse_views(body: Any) -> None:
    values: list[object] = [body]
    for value in values:  # grows while it is gone through
        kind: type[object] = type(value)
        if kind in _SCALARS:
            continue
        if kind is dict or isinstance(value, Mapping):
            values.extend(cast("Mapping[Any, Any]", value).values())
        elif isinstance(value, list | tuple):
            values.extend(cast("list[Any]", value))
        elif not isinstance(value, str | int | float | msgspec.Raw):
            raise TypeError(
                f"{kind.__name__} is no plain data; a partial view must never be written back"
            )
