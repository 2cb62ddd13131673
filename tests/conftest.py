"""Shared by all tests: virtual time unless a test asks for the real one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tests.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every coroutine test in virtual time, save those that need the real one."""
    against_real_server = "MANTA_TEST_KUBECONFIG" in os.environ
    if against_real_server or item.get_closest_marker("real_time"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
