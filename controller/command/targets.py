"""The words of a command line: the object that it is about, `KIND/NAME`, and names of options."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from string import ascii_lowercase
from typing import Any, Final

from controller.kube.errors import ConfigurationError
from controller.kube.resources import Resource

_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
"""A kind or a name: no part of a path or of a query, which would lead to another object."""


def parse_target(
    words: Sequence[str], resources: Collection[Resource[Any]], participle: str
) -> tuple[Resource[Any], str]:
    """Read `KIND/NAME` or `KIND NAME`, of the kinds that the command knows.

    The participle says what the command does to them, to refuse others: `rolled out`.

    Raises:
        ConfigurationError: it is something else, or there is no such kind.
    """
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) != 2 or not all(map(_PART.fullmatch, parts)):
        kind = next(iter(resources)).kind.lower()
        name = parts[0] if len(parts) == 1 and _PART.fullmatch(parts[0]) else "example"
        raise ConfigurationError(
            f"{' '.join(words)!r} names no object; write {kind}/NAME, for example {kind}/{name}"
        )
    return parse_kind(parts[0], resources, participle), parts[1]


def parse_kind(word: str, resources: Collection[Resource[Any]], participle: str) -> Resource[Any]:
    """Return the kind of `RayCluster`, `rayclusters`, `rayclusters.ray.io` and the like.

    Raises:
        ConfigurationError: there is none; the message names the nearest one.
    """
    name, _, group = word.lower().partition(".")
    for resource in resources:
        if name in {resource.kind.lower(), resource.plural} and (
            group.removeprefix(f"{resource.version}.") in {"", resource.group}
        ):
            return resource
    kinds = [each.kind.lower() for each in resources]
    raise ConfigurationError(
        f"{word!r} cannot be {participle}; {', '.join(kinds[:-1])} and {kinds[-1]} can"
        f"{suggestion(name.removesuffix('s'), kinds) or f'; an object is {kinds[0]}/{name}'}"
    )


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean KNOWN?`; empty if nothing is near."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def with_option(error: ValueError, options: Mapping[str, str]) -> str:
    """Return the text of an error of `Settings` with the option in place of the setting."""
    text = str(error)
    setting = text[: len(text) - len(text.lstrip(f"{ascii_lowercase}_"))]
    return options.get(setting, setting) + text.removeprefix(setting)
