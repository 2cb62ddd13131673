"""Tests with real Ray take turns, and one process runs them all."""

from __future__ import annotations

import fcntl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.ray.machine import needs_ray

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let one process run them, where processes share the tests by group."""
    if needs_ray.mark in item.iter_markers():
        item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(autouse=True)
def _turn() -> Iterator[None]:
    """One test with real Ray at a time: two would be slow on a small machine, and fail."""
    with (Path(tempfile.gettempdir()) / "manta-tests-of-ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
