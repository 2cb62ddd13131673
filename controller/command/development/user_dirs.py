"""Folders of the person who runs the command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Where Manta keeps what it can make anew: `~/.cache/manta` or in `XDG_CACHE_HOME`."""
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "manta"
