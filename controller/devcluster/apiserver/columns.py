"""Columns of tables: a heading, and how an object's cell is read; ages as kubectl prints them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from controller.devcluster.apiserver.objects import child, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controller.devcluster.apiserver.objects import Json


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: heading of the column.
        read: returns the cell of an object at a moment.
        type: `string`, `integer`, `number`, `boolean` or `date`.
        format: `name` for the object's name, else empty.
        description: a sentence for people.
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
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


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
UNSET = "<unset>"
UNKNOWN = "<unknown>"


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


def selector(labels: Json) -> str:
    """Return a map of labels as a selector."""
    return joined(f"{key}={value}" for key, value in sorted(labels.items()))


def label_selector(value: Json) -> str:
    """Return a structured selector in its short form."""
    terms = [f"{key}={item}" for key, item in sorted(child(value, "matchLabels").items())]
    for expression in entries(value, "matchExpressions"):
        key, operator = expression.get("key"), expression.get("operator")
        listed = ",".join(sorted(entries(expression, "values")))
        if operator in {"In", "NotIn"}:
            terms.append(f"{key} {operator.lower()} ({listed})")
        else:
            terms.append(key if operator == "Exists" else f"!{key}")
    return joined(terms)


def template_columns(path: str, selector_path: str) -> tuple[Column, ...]:
    """Return the columns containers, images and selector of a kind with a pod template."""

    def containers(object_: Json) -> list[Json]:
        return entries(at(object_, path, {}), "containers")

    return (
        column("Containers", lambda o: joined(c.get("name", "") for c in containers(o)), wide=True),
        column("Images", lambda o: joined(c.get("image", "") for c in containers(o)), wide=True),
        column("Selector", lambda o: label_selector(at(o, selector_path, {})), wide=True),
    )


def elapsed(start: str | None, end: str | None, now: datetime) -> str:
    """Return the time between two timestamps; until now if there is no end."""
    if not start:
        return ""
    finish = parse_time(end) if end else now
    return duration((finish - parse_time(start)).total_seconds())
