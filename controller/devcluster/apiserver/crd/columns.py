"""Additional printer columns of custom resources, and the part of JSONPath that they use."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from controller.devcluster.apiserver.columns import Column, age_of, since
from controller.devcluster.apiserver.objects import Json, entries

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


Step: TypeAlias = "str | int | tuple[tuple[str, ...], str] | None"

_STEP = re.compile(
    r"\.(?P<member>(?:[^.\[\]\\]|\\.)+)"
    r"|\[\s*(?P<index>-?\d+)\s*\]"
    r"|\[\s*'(?P<quoted>[^']*)'\s*\]"
    r"|(?P<all>\[\*\]|\.\*)"
    r"|\[\?\(\s*@(?P<path>(?:\.[^.\s=\[\]]+)+)\s*==\s*(?P<quote>[\"'])(?P<value>.*?)(?P=quote)\s*\)\]"
)


class PathError(ValueError):
    """The path uses unsupported syntax."""


@lru_cache(maxsize=512)
def parse(path: str) -> tuple[Step, ...]:
    """Parse a path into member names, indexes, None for all items, or filters.

    Raises:
        PathError: unsupported syntax.
    """
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise PathError(f"unsupported JSON path {path!r} at character {position}")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    found = match.groupdict()
    if found["all"]:
        return None
    if found["member"] is not None:
        return re.sub(r"\\(.)", r"\1", found["member"])
    if found["quoted"] is not None:
        return found["quoted"]
    if found["index"] is not None:
        return int(found["index"])
    return tuple(found["path"].split(".")[1:]), found["value"]


def find(object_: Any, path: str) -> list[Any]:
    """Return all values at a path, in order."""
    values: list[Any] = [object_]
    for step in parse(path):
        values = [found for value in values for found in _follow(value, step)]
    return values


def _follow(value: Any, step: Step) -> list[Any]:
    if isinstance(step, str):
        return [cast("Json", value)[step]] if isinstance(value, dict) and step in value else []
    items = cast("list[Any]", value) if isinstance(value, list) else []
    if step is None:
        return list(cast("Json", value).values()) if isinstance(value, dict) else items
    if isinstance(step, int):
        return [items[step]] if -len(items) <= step < len(items) else []
    path, wanted = step
    return [item for item in items if str(_member(item, path)) == wanted]


def _member(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = cast("Json", value).get(name) if isinstance(value, dict) else None
    return value


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
