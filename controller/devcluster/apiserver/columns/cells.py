"""Helpers for columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from controller.devcluster.apiserver.columns.column import Column, duration, parse_time
from controller.devcluster.apiserver.jsondata import child, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from controller.devcluster.apiserver.jsondata import Json

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
