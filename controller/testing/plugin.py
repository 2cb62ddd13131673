"""Runs coroutine tests in virtual time, with a fixture `cluster`.

In conftest.py: `pytest_plugins = ["controller.testing.plugin"]`. A test with the marker `real_time`
gets an ordinary event loop: for sockets, processes and threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping

import pytest
import pytest_asyncio

from controller.testing.cluster import Cluster, embedded_cluster
from controller.testing.virtual_time import VirtualLoop


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "real_time: runs on the ordinary event loop")


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the event loop that a coroutine test runs on."""
    if item.get_closest_marker("real_time"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}


@pytest_asyncio.fixture
async def cluster() -> AsyncGenerator[Cluster]:
    """An empty cluster in virtual time; its operators end with the test."""
    async with embedded_cluster() as cluster:
        yield cluster
