"""Tests with real Ray take turns, also those of several runs at once."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _turn() -> Iterator[None]:
    """One test with real Ray at a time: two would be slow on a small machine, and fail."""
    with (Path(tempfile.gettempdir()) / "manta-tests-of-ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
