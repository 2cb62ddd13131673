"""Columns of tables: a heading, and how an object's cell is read; ages as kubectl prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeAlias, cast

from msgspec import Struct

from controller.devcluster.apiserver.objects import Json, entries


class Column(Struct, frozen=True):
    """One column.

    Attributes:
        type: `string`, `integer`, `number`, `boolean` or `date`.
        format: `name` for the object's name, else empty.
        priority: 0 is always shown, others only with `-o wide`.
    """

    name: str
    read: Callable[[Json, datetime], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Json:
        """Return the entry for `columnDefinitions`."""
        shown = ("name", "type", "format", "description", "priority")
        return {name: getattr(self, name) for name in shown}


def name_of(object_: Json, now: datetime) -> str:  # noqa: ARG001 - cells have one signature
    """Return the cell of the name."""
    return object_["metadata"]["name"]


def age_of(object_: Json, now: datetime) -> str:
    """Return the cell of the age."""
    return since(object_["metadata"].get("creationTimestamp"), now)


def since(moment: str | None, now: datetime) -> str:
    """Return the age of a timestamp."""
    if not moment:
        return "<unknown>"
    return duration((now - parse_time(moment)).total_seconds())


def parse_time(text: str) -> datetime:
    """Return a timestamp of the API, with or without fractions of a second."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


_AGES = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
"""Upper bound in seconds, unit, its name, smaller unit printed beside it (0 for none), its name."""


def duration(seconds: float) -> str:
    """Return seconds as kubectl prints ages: two units at most, ever coarser."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    total = max(total, 0)
    for bound, large, name, small, small_name in _AGES:
        if total < bound:
            rest = total % large // small if small else 0
            return f"{total // large}{name}" + (f"{rest}{small_name}" if rest else "")
    return f"{total // _YEAR}y"


NAME = Column("Name", name_of, format="name")


AGE = Column("Age", age_of)


DEFAULT_COLUMNS = (NAME, AGE)


NONE = "<none>"


def at(object_: Any, path: str, default: Any = None) -> Any:
    """Return the value at a dotted path, or the default."""
    value = object_
    for part in path.split("."):
        value = cast("Json", value).get(part) if isinstance(value, dict) else None
    return default if value is None else value


def column(
    name: str, read: Callable[[Json], Any], *, type_: str = "string", wide: bool = False
) -> Column:
    """Return a column whose cells do not depend on the time."""
    return Column(name, lambda object_, _: read(object_), type=type_, priority=int(wide))


def field(
    name: str, path: str, default: Any = "", *, type_: str = "string", wide: bool = False
) -> Column:
    """Return a column that shows one field as it is."""
    return column(name, lambda object_: at(object_, path, default), type_=type_, wide=wide)


def joined(items: Iterable[Any], empty: str = NONE) -> str:
    """Join items with commas."""
    return ",".join(map(str, items)) or empty


def elapsed(start: str | None, end: str | None, now: datetime) -> str:
    """Return the time between two timestamps; until now if there is no end."""
    if not start:
        return ""
    finish = parse_time(end) if end else now
    return duration((finish - parse_time(start)).total_seconds())


# Additional printer columns of custom resources, and the part of JSONPath that they use.


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
