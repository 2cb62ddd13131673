"""Command lines for containers: flags are sorted, so that the same options give the same text.

Kaito writes them in the random order of Go's maps, so command lines are never compared with
Kaito's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_flags(command: str, flags: Mapping[str, str]) -> str:
    """Return the command followed by `--name=value`, or by `--name` where the value is empty."""
    words = [f"--{name}={flags[name]}" if flags[name] else f"--{name}" for name in sorted(flags)]
    return " ".join([command, *words])


def in_shell(command: str) -> list[str]:
    """Return the `command` of a container that runs this line."""
    return ["/bin/sh", "-c", command]
