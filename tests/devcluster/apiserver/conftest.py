from __future__ import annotations

import os

import pytest

from tests.devcluster.apiserver.support import EmbeddedApi, open_api


@pytest.fixture
async def api():
    """The embedded server, or the real one if the environment names it."""
    async with open_api() as opened:
        yield opened


@pytest.fixture
async def embedded():
    """The embedded server: for what a real one cannot be made to do."""
    if "MANTA_TEST_KUBECONFIG" in os.environ:
        pytest.skip("needs the embedded server")
    opened = EmbeddedApi()
    opened.namespace = "default"
    yield opened
    await opened.server.aclose()
