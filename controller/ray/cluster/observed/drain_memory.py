"""Remembers the nodes that this process has told Ray to drain; a new process tells it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.dashboard import Head


@dataclass(frozen=True, slots=True)
class DrainMemory:
    """The nodes that a head was told to drain.

    Attributes:
        head: the head that has the commands; a new one gets them again.
        commands: id of the command by id of the node.
    """

    head: Head | None = None
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
