"""Tables: what `kubectl get` prints, as rows computed by the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.jsondata import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from controller.devcluster.apiserver.columns.column import Column
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.resources.resource import ApiResource
    from controller.devcluster.apiserver.storage.store import Stored


class TableRows:
    """The representation `as=Table`."""

    def __init__(
        self, resource: ApiResource, wall: Callable[[], datetime], include: str = ""
    ) -> None:
        self._columns: Sequence[Column] = resource.columns
        self._wall = wall
        self._include = include or "Metadata"
        self._resource = resource

    def _row(self, stored: Stored) -> Json:
        now = self._wall()
        row: Json = {"cells": [column.read(stored.object, now) for column in self._columns]}
        if self._include == "Metadata":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": stored.object["metadata"],
            }
        elif self._include == "Object":
            row["object"] = stored.object
        else:
            row["object"] = None
        return row

    def _table(self, rows: list[Json], metadata: Json, *, definitions: bool = True) -> bytes:
        return encode(
            {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "columnDefinitions": [column.definition() for column in self._columns]
                if definitions
                else None,
                "rows": rows,
            }
        )

    def one(self, stored: Stored, *, first: bool = True) -> bytes:
        """Return a table with one row; in a stream only the first has column definitions."""
        metadata = {"resourceVersion": stored.object["metadata"].get("resourceVersion", "")}
        return self._table([self._row(stored)], metadata, definitions=first)

    def many(self, items: Sequence[Stored], metadata: Json) -> bytes:
        """Return a table with a row for each object."""
        return self._table([self._row(stored) for stored in items], metadata)

    def bookmark(self, metadata: Json, *, first: bool = True) -> bytes:
        """Return a table without rows, at the revision; it cannot have annotations."""
        at = {"resourceVersion": metadata["resourceVersion"]}
        return self._table([], at, definitions=first)
