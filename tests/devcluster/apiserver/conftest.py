"""The API under test: embedded by default, real when `make test-real` says where one is."""

from __future__ import annotations

import pytest

from tests.devcluster.apiserver.support import EmbeddedApi, open_api
from tests.lab.session import own_kubeconfig


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what must hold on a real server, and leave out what that cannot be made to do."""
    for item in items:
        if "api" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.vital)
    if not own_kubeconfig():
        return
    left_out = [item for item in items if "embedded" in getattr(item, "fixturenames", ())]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
async def api():
    """The embedded server, or the real one if the environment names it."""
    async with open_api() as opened:
        yield opened


@pytest.fixture
async def embedded():
    """The embedded server: for what a real one cannot be made to do."""
    opened = EmbeddedApi()
    opened.namespace = "default"
    yield opened
    await opened.server.aclose()
