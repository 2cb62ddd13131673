"""Errors of the API as `Status` bodies: reason, message, details and code in upstream's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class ApiError(Exception):
    """The request is answered with this status instead of an object.

    Attributes:
        details: name, group, kind, uid, causes, retryAfterSeconds, as far as they are known.
        metadata: list metadata of the Status; only an expired continue token uses it.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}

    def body(self) -> dict[str, Any]:
        """Return the `Status` object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class StatusCause(msgspec.Struct, frozen=True):
    """One validation error of one field.

    Attributes:
        reason: cause type, `FieldValueInvalid`.
        field: path of the field, `spec.containers[0].name`.
        message: the error, beginning with its type: `Required value`.
    """

    reason: str
    field: str
    message: str


class ResourceName(msgspec.Struct, frozen=True):
    """The name of a resource in errors: plural and group, with the kind for validation errors."""

    group: str
    plural: str
    kind: str

    @property
    def qualified(self) -> str:
        """`pods` or `rayclusters.ray.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """`Pod` or `RayCluster.ray.io`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def details(self, name: str, kind: str = "") -> dict[str, Any]:
        """Return the `details` of an error about one object."""
        details: dict[str, Any] = {}
        if name:
            details["name"] = name
        if self.group:
            details["group"] = self.group
        if kind or self.plural:
            details["kind"] = kind or self.plural
        return details


def shown(value: Any) -> str:
    """Return a value as validation messages quote it."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is True or value is False:
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value).decode()
    return str(value)


def required(field: str, detail: str = "") -> StatusCause:
    """Return the cause of a missing field."""
    message = f"Required value: {detail}" if detail else "Required value"
    return StatusCause("FieldValueRequired", field, message)


def invalid_value(field: str, value: Any, detail: str) -> StatusCause:
    """Return the cause of a field's value that breaks a rule."""
    return StatusCause("FieldValueInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def invalid_type(field: str, value: Any, detail: str) -> StatusCause:
    """Return the cause of a field's value of the wrong type."""
    return StatusCause("FieldValueTypeInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def unsupported_value(field: str, value: Any, allowed: Sequence[Any]) -> StatusCause:
    """Return the cause of a field's value that is not in a closed set."""
    choices = ", ".join(shown(choice) for choice in allowed)
    return StatusCause(
        "FieldValueNotSupported",
        field,
        f"Unsupported value: {shown(value)}: supported values: {choices}",
    )


def check_choice(field: str, value: Any, allowed: Sequence[Any]) -> list[StatusCause]:
    """Return the cause of a value that is not among those allowed, if it is not."""
    return [] if value in allowed else [unsupported_value(field, value, allowed)]


def duplicate(field: str, value: Any) -> StatusCause:
    """Return the cause of a duplicate list entry."""
    return StatusCause("FieldValueDuplicate", field, f"Duplicate value: {shown(value)}")


def forbidden_field(field: str, detail: str) -> StatusCause:
    """Return the cause of a field that must not be set or changed."""
    return StatusCause("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_found(resource: ResourceName, name: str) -> ApiError:
    """Return 404: there is no such object."""
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, resource.details(name))


def path_not_found() -> ApiError:
    """Return 404: the server serves nothing at this path."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: ResourceName, name: str, *, terminating: bool) -> ApiError:
    """Return 409: an object of this name exists, though its deletion may be under way."""
    prefix = "object is being deleted: " if terminating else ""
    message = f'{prefix}{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, resource.details(name))


def conflict(resource: ResourceName, name: str, why: str) -> ApiError:
    """Return 409: the object is not what the request assumed."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, resource.details(name))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def invalid(resource: ResourceName, name: str, causes: Sequence[StatusCause]) -> ApiError:
    """Return 422: the object breaks validation rules."""
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = resource.details(name, resource.kind)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    return ApiError(
        422, "Invalid", f'{resource.qualified_kind} "{name}" is invalid: {text}', details
    )


def bad_request(message: str) -> ApiError:
    """Return 400: the request is malformed."""
    return ApiError(400, "BadRequest", message)


def forbidden(resource: ResourceName, name: str, why: str) -> ApiError:
    """Return 403: refused by admission or authorisation."""
    shown_name = f' "{name}"' if name else ""
    message = f"{resource.qualified}{shown_name} is forbidden: {why}"
    return ApiError(403, "Forbidden", message, resource.details(name))


def method_not_allowed() -> ApiError:
    """Return 405: the resource does not have this verb."""
    return ApiError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    )


def unavailable(message: str) -> ApiError:
    """Return 503: what would answer is not there."""
    return ApiError(503, "ServiceUnavailable", message)


def expired(message: str, continue_token: str = "") -> ApiError:
    """Return 410: the revision is no longer available."""
    metadata = {"continue": continue_token} if continue_token else {}
    return ApiError(410, "Expired", message, metadata=metadata)


def too_large_resource_version(asked: int, current: int) -> ApiError:
    """Return 504: the revision lies in the future."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ],
            "retryAfterSeconds": 1,
        },
    )
