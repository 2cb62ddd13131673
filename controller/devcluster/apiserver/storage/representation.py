"""Representations of objects: whole, metadata only, or rows of a table.

Each version of an object is encoded once per representation and shared by all responses and
watches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from controller.devcluster.apiserver.jsondata import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.resources.resource import ApiResource
    from controller.devcluster.apiserver.storage.store import Stored


class Representation(Protocol):
    """One form, chosen by the request's Accept header."""

    def one(self, stored: Stored, *, first: bool = True) -> bytes:
        """Return a single object; `first` is whether it is the first of a stream."""
        ...

    def many(self, items: Sequence[Stored], metadata: Json) -> bytes:
        """Return a list with its metadata."""
        ...

    def bookmark(self, metadata: Json, *, first: bool = True) -> bytes:
        """Return the object of a BOOKMARK event; `first` is whether it begins a stream."""
        ...


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


class MetadataOnly:
    """The representation `as=PartialObjectMetadata`."""

    def __init__(self) -> None:
        self._head = _head("PartialObjectMetadata", "meta.k8s.io/v1")

    def one(self, stored: Stored, *, first: bool = True) -> bytes:  # noqa: ARG002 - only tables care
        """Return the object's metadata."""
        return _join(self._head, stored.encoded("metadata", _only_metadata))

    def many(self, items: Sequence[Stored], metadata: Json) -> bytes:
        """Return a `PartialObjectMetadataList`."""
        head = _head("PartialObjectMetadataList", "meta.k8s.io/v1")
        if not items:
            return head + b'"metadata":' + encode(metadata) + b',"items":null}'
        return _list(head, metadata, [self.one(stored) for stored in items])

    def bookmark(self, metadata: Json, *, first: bool = True) -> bytes:  # noqa: ARG002 - only tables care
        """Return an empty object with the revision."""
        return self._head + b'"metadata":' + encode(metadata) + b"}"


def _only_metadata(object_: Json) -> Json:
    return {"metadata": object_["metadata"]}


def _head(kind: str, api_version: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def _join(head: bytes, body: bytes) -> bytes:
    return head + body[1:]


def _list(head: bytes, metadata: Json, items: list[bytes]) -> bytes:
    return b"".join(
        (head, b'"metadata":', encode(metadata), b',"items":[', b",".join(items), b"]}")
    )
