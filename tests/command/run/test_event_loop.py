"""The operator runs on uvloop's event loop if that is installed, else on asyncio's."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType

import pytest

from controller.command.process import run_operator


class UvloopsLoop(asyncio.SelectorEventLoop):
    """Stands in for uvloop's, which the tests do without."""


async def loop_in_use() -> type[asyncio.AbstractEventLoop]:
    return type(asyncio.get_running_loop())


def test_where_uvloop_is_installed_it_is_used(monkeypatch: pytest.MonkeyPatch):
    uvloop = ModuleType("uvloop")
    uvloop.new_event_loop = UvloopsLoop  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "uvloop", uvloop)
    assert run_operator(loop_in_use()) is UvloopsLoop


def test_without_uvloop_the_loop_is_asyncios(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_operator(loop_in_use()) is asyncio.SelectorEventLoop
