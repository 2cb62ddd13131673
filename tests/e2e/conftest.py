"""Tests with real Ray take turns (`turn_of_ray`): none of them keeps a second process waiting."""

from __future__ import annotations

import pytest

from tests.e2e.machine import needs_ray


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let one process run them, where processes share the tests by group."""
    if needs_ray.mark in item.iter_markers():
        item.add_marker(pytest.mark.xdist_group("ray"))
