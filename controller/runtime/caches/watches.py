"""Merges what the kinds watch into one watch for each resource.

The process has one informer for a resource and namespace, whichever kinds need it. They must agree
on the label selector; each may add indexes of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.apimachinery.ownership import index_by_owner
from controller.runtime.kind import OWNER_INDEX, Owned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controller.kube.resources import Resource
    from controller.runtime.kind import Kind

_REMEDY = "Kinds that own one resource must declare its watch in one place and share it."


@dataclass(slots=True)
class ResourceWatch:
    """The watch of one resource, for all kinds that need it.

    Attributes:
        label_selector: limits list and watch.
        optional: whether the API server may lack the resource, for every kind.
        indexes: index functions by name, `owner` included.
        declared_by: name of the first kind that declared the selector, and of that of each index.
    """

    label_selector: str
    optional: bool
    indexes: dict[str, Callable[[Any], Sequence[str]]] = field(
        default_factory=dict[str, "Callable[[Any], Sequence[str]]"]
    )
    declared_by: dict[str, str] = field(default_factory=dict[str, str])


def merge_watches(kinds: Iterable[Kind[Any]]) -> Mapping[Resource[Any], ResourceWatch]:
    """Return one watch for each primary and owned resource; primaries are watched whole.

    Raises:
        ValueError: two kinds declare different selectors for one resource, or different functions
            for one index. The message names both kinds and the remedy.
    """
    watches: dict[Resource[Any], ResourceWatch] = {}
    for kind in kinds:
        for owned in (_primary(kind), *kind.owned):
            watch = watches.get(owned.resource)
            if watch is None:
                watch = ResourceWatch(
                    owned.label_selector, owned.optional, declared_by={"": kind.name}
                )
                watches[owned.resource] = watch
            watch.optional = watch.optional and owned.optional
            if watch.label_selector != owned.label_selector:
                raise ValueError(
                    f"{watch.declared_by['']} watches {owned.resource} with the label selector "
                    f"{watch.label_selector!r}, {kind.name} with {owned.label_selector!r}. "
                    f"{_REMEDY}"
                )
            _add_indexes(watch, owned, kind.name)
    return watches


def _add_indexes(watch: ResourceWatch, owned: Owned[Any], kind: str) -> None:
    for index, function in {OWNER_INDEX: index_by_owner, **owned.indexes}.items():
        if watch.indexes.setdefault(index, function) != function:
            raise ValueError(
                f"{watch.declared_by[index]} and {kind} declare different functions for the index "
                f"{index!r} of {owned.resource}. {_REMEDY}"
            )
        watch.declared_by.setdefault(index, kind)


def _primary(kind: Kind[Any]) -> Owned[Any]:
    """Return the primary resource with the indexes that `References` look it up by."""
    references = [owned.references for owned in kind.owned if owned.references is not None]
    indexes = {each.index: each.of_primary for each in references}
    return Owned(kind.primary, indexes=indexes, optional=kind.optional)
