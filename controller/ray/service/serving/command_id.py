"""Stable ids of commands to Serve, so that repeating a command has no second effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.ray.service.stored_config import StoredConfig


def put_command_ids(config: StoredConfig, capacity: int | None) -> tuple[str, str]:
    """Return two ids of the command that deploys a config with a target capacity in percent.

    A command is sent once. If Serve loses its applications, the other id is used, in turns.
    """
    first = f"serve/{config.hash}/{'full' if capacity is None else capacity}"
    return first, f"{first}/again"
