"""Parameters of create, update and patch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from controller.devcluster.apiserver.options.query import flag, is_dry_run
from controller.devcluster.apiserver.protocol.status import (
    ResourceName,
    invalid,
    unsupported_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.resources.resource import ApiResource

    Admission: TypeAlias = Callable[[ApiResource, Json, Json | None], None]
    """Refuses an object to be stored, in place of another or as a new one."""


_VALIDATIONS = ("Ignore", "Strict", "Warn")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Parameters of create, update and patch.

    Attributes:
        dry_run: whether to store nothing.
        field_validation: `Strict`, `Warn` or `Ignore`.
        field_manager: manager for managedFields.
        manager_given: whether the client itself named the manager.
        force: whether server-side apply takes over what others own.
        admit: checks the new object against the old one; None allows everything.
        warnings: sentences for the `Warning` header, added while the request is worked on.
    """

    dry_run: bool = False
    field_validation: str = "Warn"
    field_manager: str = ""
    manager_given: bool = False
    force: bool = False
    admit: Admission | None = None

    warnings: list[str] = field(default_factory=list[str])

    def check(self, resource: ApiResource, new: Json, old: Json | None) -> None:
        """Refuse what must not be stored.

        Raises:
            ApiError: as `admit` raises it.
        """
        if self.admit is not None:
            self.admit(resource, new, old)

    @classmethod
    def parse(cls, query: Mapping[str, str], user_agent: str, verb: str) -> WriteOptions:
        """Read the parameters of a verb: `create`, `update` or `patch`.

        Raises:
            ApiError: 422, an unknown value.
        """
        kind = f"{verb.capitalize()}Options"
        dry_run = is_dry_run(query.get("dryRun", ""), kind)
        validation = query.get("fieldValidation") or "Warn"
        if validation not in _VALIDATIONS:
            cause = unsupported_value("fieldValidation", validation, ("", *_VALIDATIONS))
            raise invalid(ResourceName("meta.k8s.io", "", kind), "", [cause])
        return cls(
            dry_run=dry_run,
            field_validation=validation,
            field_manager=query.get("fieldManager") or user_agent.split("/", 1)[0],
            manager_given=bool(query.get("fieldManager")),
            force=bool(flag(query, "force")),
        )
