"""JSON as plain data, and accessors that tolerate missing members."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec

Json: TypeAlias = dict[str, Any]
encode = msgspec.json.encode


def child(value: Any, name: str) -> Json:
    """Return the map below a name; empty if there is none."""
    found = cast("Json", value).get(name) if isinstance(value, dict) else None
    return cast("Json", found) if isinstance(found, dict) else {}


def entries(value: Any, name: str) -> list[Any]:
    """Return the list below a name; empty if there is none."""
    found = cast("Json", value).get(name) if isinstance(value, dict) else None
    return cast("list[Any]", found) if isinstance(found, list) else []
