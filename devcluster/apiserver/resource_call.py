"""A request about a resource, and what its answer shows: objects or rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from devcluster.apiserver.columns import Column
from devcluster.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    ResourcePath,
    bytes_response,
    content_type,
    decode_object,
    wants_table,
)
from devcluster.apiserver.objects import Json, encode
from devcluster.apiserver.options import (
    Selection,
    parse_field_selector,
    parse_label_selector,
)
from devcluster.apiserver.resources import METADATA_FIELDS, ApiResource
from devcluster.apiserver.status import ApiError, bad_request
from devcluster.apiserver.store import Stored


def _body(object_: Json) -> Json:
    return {key: value for key, value in object_.items() if key not in {"kind", "apiVersion"}}


class WholeObjects:
    """The representation `application/json`: whole objects."""

    def __init__(self, resource: ApiResource) -> None:
        self._resource = resource
        self._head = _head(resource.kind, resource.api_version)

    def _item(self, stored: Stored) -> bytes:
        convert = self._resource.from_stored
        if convert is None:
            return stored.encoded("body", _body)
        return stored.encoded(self._resource.api_version, lambda object_: _body(convert(object_)))

    def one(self, stored: Stored, *, first: bool = True) -> bytes:  # noqa: ARG002 - only tables care
        """Return the object with its kind in front."""
        return _join(self._head, self._item(stored))

    def many(self, items: Sequence[Stored], metadata: Json) -> bytes:
        """Return a list; items of built-in kinds do not repeat their kind, as upstream."""
        each = self._item
        if self._resource.custom:
            each = self.one
            metadata = {"continue": ""} | metadata
        head = _head(self._resource.list_name, self._resource.api_version)
        return _list(head, metadata, [each(stored) for stored in items])

    def bookmark(self, metadata: Json, *, first: bool = True) -> bytes:  # noqa: ARG002 - only tables care
        """Return an empty object with the revision."""
        return _join(self._head, encode({"metadata": metadata} | self._resource.blank))


_PARTIAL, _META = "PartialObjectMetadata", "meta.k8s.io/v1"


def _head(kind: str, api_version: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def _join(head: bytes, body: bytes) -> bytes:
    return head + body[1:]


def _list(head: bytes, metadata: Json, items: list[bytes]) -> bytes:
    return b"".join(
        (head, b'"metadata":', encode(metadata), b',"items":[', b",".join(items), b"]}")
    )


class TableRows:
    """The representation `as=Table`."""

    def __init__(
        self, resource: ApiResource, wall: Callable[[], datetime], include: str = ""
    ) -> None:
        self._columns: Sequence[Column] = resource.columns
        self._wall = wall
        self._include = include or "Metadata"

    def _row(self, stored: Stored) -> Json:
        now, metadata = self._wall(), stored.object["metadata"]
        part = {"kind": _PARTIAL, "apiVersion": _META, "metadata": metadata}
        return {
            "cells": [column.read(stored.object, now) for column in self._columns],
            "object": {"Metadata": part, "Object": stored.object}.get(self._include),
        }

    def _table(self, rows: list[Json], metadata: Json, *, definitions: bool = True) -> bytes:
        columns = [column.definition() for column in self._columns] if definitions else None
        head = {"kind": "Table", "apiVersion": _META, "metadata": metadata}
        return encode(head | {"columnDefinitions": columns, "rows": rows})

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


Representation: TypeAlias = WholeObjects | TableRows
"""One form, chosen by the request's Accept header."""


class ResourceCall(NamedTuple):
    """A request and the resource that its path names."""

    request: ApiRequest
    where: ResourcePath
    resource: ApiResource
    wall: Callable[[], datetime]

    @property
    def target(self) -> tuple[ApiResource, str, str]:
        """Resource, namespace and name."""
        return self.resource, self.where.namespace, self.where.name

    @property
    def key(self) -> str:
        """Key of the object in its table."""
        return self.resource.key(self.where.namespace, self.where.name)

    @property
    def media_type(self) -> str:
        """Type of the body."""
        return content_type(self.request.headers)

    @property
    def body(self) -> Json:
        """The object in the body.

        Raises:
            ApiError: 400 or 415.
        """
        return decode_object(self.request.body, self.media_type)

    def representation(self) -> Representation:
        """Return the representation that the client asks for.

        Raises:
            ApiError: 406.
        """
        if wants_table(self.request.headers.get("accept", "")):
            include = self.request.query.get("includeObject", "")
            return TableRows(self.resource, self.wall, include)
        return WholeObjects(self.resource)

    def answer(self, status: int, stored: Stored) -> ApiResponse:
        """Return an answer with one object.

        Raises:
            ApiError: 406.
        """
        return bytes_response(status, self.representation().one(stored))

    def selection(self) -> Selection:
        """Return the objects that the request selects.

        Raises:
            ApiError: 400.
        """
        fields = self.request.query.get("fieldSelector", "")
        if self.where.name:
            fields = f"{fields},metadata.name={self.where.name}".strip(",")
        return Selection(
            parse_label_selector(self.request.query.get("labelSelector", "")),
            parse_field_selector(
                fields, self.resource.fields, lambda label: _not_selectable(self.resource, label)
            ),
        )


def _not_selectable(resource: ApiResource, label: str) -> ApiError:
    if resource.table == "jobs.batch":
        return bad_request(f'field label "{label}" not supported for {resource.kind}')
    if resource.custom or resource.fields.keys() != METADATA_FIELDS.keys():
        return bad_request(f"field label not supported: {label}")
    known = ", ".join(f'"{name}"' for name in METADATA_FIELDS)
    return bad_request(f'"{label}" is not a known field selector: only {known}')
