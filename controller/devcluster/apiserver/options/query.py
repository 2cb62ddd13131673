"""Single query parameters, parsed and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.protocol.status import (
    ApiError,
    ResourceName,
    StatusCause,
    bad_request,
    invalid,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def flag(query: Mapping[str, str], name: str) -> bool | None:
    """Return a boolean parameter; None if absent."""
    value = query.get(name)
    if value is None:
        return None
    return value.lower() not in {"false", "0"}


def number(query: Mapping[str, str], name: str) -> int | None:
    """Return an integer parameter; None if absent.

    Raises:
        ApiError: 400, it is not an integer.
    """
    value = query.get(name)
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None


def revision(query: Mapping[str, str]) -> int | None:
    """Return `resourceVersion` as a number; None if absent or empty.

    Raises:
        ApiError: 400, it is not a revision.
    """
    value = query.get("resourceVersion", "")
    if not value:
        return None
    if not value.isdigit():
        why = (
            f'resourceVersion: Invalid value: "{value}": strconv.ParseUint: parsing "{value}": '
            "invalid syntax"
        )
        if flag(query, "watch"):
            raise ApiError(500, "", why)
        raise bad_request(f"invalid resource version: {why}")
    return int(value)


def is_dry_run(value: str, kind: str) -> bool:
    """Return whether `dryRun` of options of a kind is `All`.

    Raises:
        ApiError: 422, it is something else.
    """
    if value in {"", "All"}:
        return value == "All"
    cause = StatusCause(
        "FieldValueNotSupported",
        "dryRun",
        f'Unsupported value: ["{value}"]: supported values: "All"',
    )
    raise invalid(ResourceName("meta.k8s.io", "", kind), "", [cause])
