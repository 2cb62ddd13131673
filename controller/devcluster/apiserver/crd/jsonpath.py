"""The part of JSONPath that printer columns use: members, indexes, wildcards, equality filters."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json


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
