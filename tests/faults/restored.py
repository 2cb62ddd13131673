"""Restores the embedded API server's database to an earlier state, as etcd is from a backup."""

from __future__ import annotations

from collections import deque
from typing import Any

from devcluster.apiserver import ApiServer


class Backup:
    """The state of an embedded API server at the time of the call."""

    def __init__(self, server: ApiServer) -> None:
        self._store: Any = server.store
        self.revision: int = self._store.revision
        self._items = {name: dict(table.items) for name, table in self._store.tables.items()}

    def restore(self, *, revision: int | None = None) -> None:
        """Go back to that state. All watches end, as when the API server is restarted.

        Args:
            revision: from which the server goes on; by default that of the backup.
        """
        revision = self._store.revision = self.revision if revision is None else revision
        for name, table in self._store.tables.items():
            table.items = dict(self._items.get(name, {}))
            table._keys = sorted(table.items)
            table._start = table.end
            table._log = deque()
            table.compacted = revision
            table.readings += 1
            table.wake()
