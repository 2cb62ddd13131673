"""Served resources: one `ApiResource` for each resource of each group version.

Kinds are data; the behaviour of a kind is in its `Strategy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.protocol.status import ResourceName
from controller.devcluster.apiserver.resources.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.devcluster.apiserver.columns.column import Column
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.resources.scale_paths import ScalePaths

ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


def metadata_field(name: str) -> Callable[[Json], str]:
    """Return a reader of a metadata field for field selectors."""
    return lambda object_: object_["metadata"].get(name, "")


METADATA_FIELDS: Mapping[str, Callable[[Json], str]] = {
    "metadata.name": metadata_field("name"),
    "metadata.namespace": metadata_field("namespace"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class ApiResource:
    """One resource under one group version.

    Attributes:
        group: API group, empty for the core group.
        version: version without the group.
        plural: name in paths.
        kind: the objects' kind.
        table: storage table; all versions of a resource share one.
        strategy: defaults, validation and deletion rules of the kind.
        subresources: names of the subresources, such as `status`.
        scale: paths of its numbers of replicas, if it has that subresource.
        custom: whether it comes from a CustomResourceDefinition; list items then carry their kind.
        fields: selectable fields, with their readers.
        columns: columns of `kubectl get`.
        blank: upstream's empty object of the kind without metadata; bookmarks
            carry it.
        to_stored: converts from this version to the stored form, None if they are the same.
        from_stored: converts from the stored form to this version, None if they are the same.
    """

    group: str
    version: str
    plural: str
    kind: str
    table: str
    strategy: Strategy = field(default_factory=Strategy)
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: frozenset[str] = frozenset()
    scale: ScalePaths | None = None
    custom: bool = False
    fields: Mapping[str, Callable[[Json], str]] = field(default_factory=lambda: METADATA_FIELDS)
    columns: tuple[Column, ...] = ()
    blank: Json = field(default_factory=dict[str, Any])
    to_stored: Callable[[Json], Json] | None = None
    from_stored: Callable[[Json], Json] | None = None

    @property
    def api_version(self) -> str:
        """`v1` or `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> ResourceName:
        """The name of the resource in errors."""
        return ResourceName(self.group, self.plural, self.kind)

    @property
    def list_name(self) -> str:
        """Kind of lists."""
        return self.list_kind or f"{self.kind}List"

    def key(self, namespace: str, name: str) -> str:
        """Return the key in the storage table."""
        return f"{namespace}/{name}" if self.namespaced else name
