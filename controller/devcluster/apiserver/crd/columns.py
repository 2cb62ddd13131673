"""Additional printer columns of custom resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.columns.column import Column, age_of, since
from controller.devcluster.apiserver.crd.jsonpath import find, parse
from controller.devcluster.apiserver.jsondata import Json, entries

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


DATE = Column("Age", age_of, type="date")
"""The only column besides the name where a definition has none."""


def custom_columns(version: Json) -> tuple[Column, ...]:
    """Return the columns of one version of a definition.

    Raises:
        PathError: a column's path is not supported.
    """
    return tuple(
        Column(
            column["name"],
            _reader(column["jsonPath"], column.get("type", "string")),
            type=column.get("type", "string"),
            format=column.get("format", ""),
            description=column.get("description")
            or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
            priority=column.get("priority", 0),
        )
        for column in entries(version, "additionalPrinterColumns")
    )


def _reader(path: str, kind: str) -> Callable[[Json, datetime], Any]:
    parse(path)

    def read(object_: Json, now: datetime) -> Any:
        values = find(object_, path)
        if not values:
            return None
        return _cell(values[0], kind, now)

    return read


def _cell(value: Any, kind: str, now: datetime) -> Any:
    if kind == "date":
        try:
            return since(value, now)
        except (TypeError, ValueError, AttributeError):
            return "<invalid>"
    if kind in {"integer", "number"}:
        return value if isinstance(value, (int, float)) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value is not None else None
