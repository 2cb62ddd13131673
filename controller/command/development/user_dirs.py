"""Directories of the current user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return Manta's cache directory: `manta` in `XDG_CACHE_HOME` or in `~/.cache`."""
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "manta"
