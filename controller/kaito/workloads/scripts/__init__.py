"""Shell scripts of containers that fetch and push data, with their values quoted into them."""

from __future__ import annotations

import shlex
from functools import cache
from importlib import resources


def script(name: str, **values: str) -> str:
    """Return the script of this name, which begins with an assignment for each value."""
    lines = [f"{key.upper()}={shlex.quote(value)}" for key, value in values.items()]
    return "\n".join(["set -eu", *lines, _text(name)])


@cache
def _text(name: str) -> str:
    folder = resources.files("controller.kaito.workloads").joinpath("scripts")
    return folder.joinpath(name).read_text(encoding="utf-8")
