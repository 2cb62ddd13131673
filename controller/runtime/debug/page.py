"""Reads the debug page from all parts of the process, only when it is requested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from controller.runtime.debug.shape import PageContent
from controller.runtime.errors import ManagerMisuse

if TYPE_CHECKING:
    from collections.abc import Callable

_log = structlog.stdlib.get_logger("manta.debug")


class DebugPage:
    """The sections of the page, each read by a function without side effects."""

    def __init__(self) -> None:
        self._sections: dict[str, Callable[[], Any]] = {}

    def add(self, name: str, read: Callable[[], Any]) -> None:
        """Fill a field of the page with what `read` returns.

        Raises:
            ManagerMisuse: the page has no such field, or it is filled already.
        """
        if name not in PageContent.__struct_fields__ or name in self._sections:
            raise ManagerMisuse(f"the debug page has no place for another section {name}")
        self._sections[name] = read

    def read(self) -> PageContent:
        """Return the page as it is now; a section that raises is left out and named."""
        found: dict[str, Any] = {}
        unreadable: dict[str, str] = {}
        for name, read in self._sections.items():
            try:
                found[name] = read()
            except Exception as error:  # noqa: BLE001  the others are shown
                _log.exception("debug.section_failed", section=name)
                unreadable[name] = type(error).__name__
        return PageContent(**found, unreadable=unreadable)
