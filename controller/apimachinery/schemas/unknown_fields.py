"""Finds fields that a schema does not have: a server drops them without a message."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.apimachinery.schemas.object_schema import ObjectSchema


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that the schema lacks: its full path, and the field that was probably meant."""

    path: str
    nearest: str = ""

    def __str__(self) -> str:
        """Return `spec.nodeSelektor (did you mean nodeSelector?)`."""
        return f"{self.path} (did you mean {self.nearest}?)" if self.nearest else self.path


def unknown_fields(value: Any, schema: ObjectSchema, path: str) -> Iterator[UnknownField]:
    """Yield the fields of plain data that the schema does not have, in the order of the data.

    Args:
        value: plain data, such as a pod template.
        schema: schema of the data.
        path: path of `value`, with which all paths begin.
    """
    if isinstance(value, list) and schema.items is not None:
        for position, item in enumerate(cast("list[Any]", value)):
            yield from unknown_fields(item, schema.items, f"{path}[{position}]")
    elif isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            below = schema.field(name)
            if below is not None:
                yield from unknown_fields(item, below, f"{path}.{name}")
            elif schema.is_closed and item is not None:
                nearest = get_close_matches(name, schema.properties, n=1)
                yield UnknownField(f"{path}.{name}", nearest[0] if nearest else "")
