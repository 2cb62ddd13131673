"""How `make test-all` shares the tests among its processes: a plugin for `--dist loadscope`.

Marks cannot say it: `--dist loadgroup` of pytest-xdist 3.8 has no effect under pytest 9.2
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer

WITH_RAY = "tests/e2e/ray/"


class OneProcessForRay(LoadScopeScheduling):
    """One process begins with all tests with real Ray, and runs them one after the other.

    The other processes take the other tests one by one, in the order of their collection. The
    largest scope goes first, which is Ray's: all others are of one test.
    """

    def _split_scope(self, nodeid: str) -> str:
        return WITH_RAY if nodeid.startswith(WITH_RAY) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneProcessForRay:
    """Share the tests so."""
    return OneProcessForRay(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a process give way to Ray from its first test without Ray."""
    if not item.nodeid.startswith(WITH_RAY):
        _give_way()


@cache
def _give_way() -> None:
    """A Ray that starves fails its readiness probes."""
    os.nice(10)
