"""Columns of tables: a heading, and how an object's cell is read; ages as kubectl prints them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.devcluster.apiserver.jsondata import Json


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
