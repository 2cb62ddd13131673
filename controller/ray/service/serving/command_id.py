"""Stable ids of commands to Serve, so that repeating a command has no second effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.ray.service.serving.stored_config import StoredConfig


def put_command_id(config: StoredConfig, capacity: int | None) -> str:
    """Id of the command that deploys a config with a target capacity in percent."""
    return f"serve/{config.hash}/{'full' if capacity is None else capacity}"
