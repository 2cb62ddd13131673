"""What needs a real API server runs only where `make test-real` has started one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.real_servers import own_kubeconfig

if TYPE_CHECKING:
    import pytest

HERE = "tests/devcluster/fidelity/"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the comparison out of `make test`."""
    if own_kubeconfig():
        return
    left_out = [
        item
        for item in items
        if item.nodeid.startswith(HERE) and item.get_closest_marker("real_only")
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
