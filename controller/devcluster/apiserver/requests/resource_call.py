"""A request about a resource, and the requested representation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controller.devcluster.apiserver.messages import bytes_response
from controller.devcluster.apiserver.options.selectors import (
    Selection,
    parse_field_selector,
    parse_label_selector,
)
from controller.devcluster.apiserver.protocol.negotiation import (
    accepted,
    content_type,
    decode_object,
)
from controller.devcluster.apiserver.protocol.status import ApiError, bad_request
from controller.devcluster.apiserver.requests.tables import TableRows
from controller.devcluster.apiserver.resources.resource import METADATA_FIELDS
from controller.devcluster.apiserver.storage.representation import MetadataOnly, WholeObjects

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.messages import ApiRequest, ApiResponse
    from controller.devcluster.apiserver.protocol.paths import ResourcePath
    from controller.devcluster.apiserver.resources.resource import ApiResource
    from controller.devcluster.apiserver.storage.representation import Representation
    from controller.devcluster.apiserver.storage.store import Stored


class ResourceCall(NamedTuple):
    """A request and the resource that its path names.

    Attributes:
        request: the request.
        where: parsed path.
        resource: the resource that the path names.
        wall: returns the time of day, for tables.
    """

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
        header = self.request.headers.get("accept", "")
        for entry in accepted(header, protobuf=not self.resource.custom):
            if entry.form == "Table":
                return TableRows(
                    self.resource, self.wall, self.request.query.get("includeObject", "")
                )
            if entry.form.startswith("PartialObjectMetadata"):
                return MetadataOnly()
            if not entry.form:
                break
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
