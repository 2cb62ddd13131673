"""Parameters of DELETE, from the body or the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.jsondata import Json, child
from controller.devcluster.apiserver.options.query import is_dry_run
from controller.devcluster.apiserver.protocol.status import (
    ResourceName,
    StatusCause,
    bad_request,
    invalid,
    invalid_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def _grace(seconds: int) -> int:
    """Read a grace period: a negative one counts as one second upstream."""
    return seconds if seconds >= 0 else 1


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion.

    Attributes:
        grace: seconds, None for the kind's default.
        propagation: `Background`, `Foreground`, `Orphan`, or empty for the kind's default.
        uid: uid that the object must have.
        resource_version: revision that the object must have.
        dry_run: whether to store nothing.
    """

    grace: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False

    @classmethod
    def parse(cls, query: Mapping[str, str], body: Json | None) -> DeleteOptions:
        """Read the options from the body, or from the query if there is no body.

        Raises:
            ApiError: 400 or 422.
        """
        source: Mapping[str, Any] = query if body is None else body
        preconditions: Json = child(body, "preconditions")
        grace = source.get("gracePeriodSeconds")
        if body is not None and isinstance(grace, str):
            raise bad_request(
                "json: cannot unmarshal string into Go struct field "
                "DeleteOptions.gracePeriodSeconds of type int64"
            )
        propagation = source.get("propagationPolicy") or ""
        if source.get("orphanDependents") is not None:
            if propagation:
                detail = "orphanDependents and deletionPropagation cannot be both set"
                cause = invalid_value("propagationPolicy", propagation, detail)
                raise invalid(ResourceName("meta.k8s.io", "", "DeleteOptions"), "", [cause])
            orphan = str(source["orphanDependents"]).lower() == "true"
            propagation = "Orphan" if orphan else "Background"
        if propagation not in {"", "Background", "Foreground", "Orphan"}:
            cause = StatusCause(
                "FieldValueNotSupported",
                "propagationPolicy",
                f'Unsupported value: "{propagation}": supported values: "Foreground", '
                '"Background", "Orphan", "nil"',
            )
            raise invalid(ResourceName("meta.k8s.io", "", "DeleteOptions"), "", [cause])
        dry_run = (body or {}).get("dryRun") or [query.get("dryRun", "")]
        return cls(
            grace=None if grace is None else _grace(int(grace)),
            propagation=propagation,
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            dry_run=is_dry_run(dry_run[0], "DeleteOptions"),
        )
