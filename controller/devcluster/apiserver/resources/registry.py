"""The table of served resources, which CustomResourceDefinitions extend at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controller.devcluster.apiserver.resources.resource import ApiResource


class Registry:
    """Resources by group, version and plural name, in the order in which they were added.

    Attributes:
        changes: number of changes, for caches of discovery documents.
    """

    def __init__(self, resources: Iterable[ApiResource] = ()) -> None:
        self.changes = 0
        self._resources: dict[tuple[str, str, str], ApiResource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: ApiResource) -> None:
        """Serve a resource from now on; an older one of the same name is replaced."""
        self._resources[resource.group, resource.version, resource.plural] = resource
        self.changes += 1

    def remove_group_resource(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
        for key in [key for key in self._resources if (key[0], key[2]) == (group, plural)]:
            del self._resources[key]
            self.changes += 1

    def find(self, group: str, version: str, plural: str) -> ApiResource | None:
        """Return the resource at this place, None if it is not served."""
        return self._resources.get((group, version, plural))

    def is_builtin(self, group: str) -> bool:
        """Return whether a group is served that does not come from definitions."""
        return any(one.group == group and not one.custom for one in self)

    def __iter__(self) -> Iterator[ApiResource]:
        """Yield all served resources."""
        return iter(tuple(self._resources.values()))

    def groups(self) -> dict[str, list[str]]:
        """Return versions by group, including the core group, preferred version first."""
        groups: dict[str, list[str]] = {}
        for resource in self:
            versions = groups.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return {group: sorted(versions, key=version_priority) for group, versions in groups.items()}


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sort key: `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, then anything else by name."""
    digits = version[1:] if version.startswith("v") else ""
    for rank, stage in enumerate(("", "beta", "alpha")):
        major, separator, minor = digits.partition(stage) if stage else (digits, "", "0")
        if bool(separator) == bool(stage) and major.isdigit() and minor.isdigit():
            return (rank, -int(major), -int(minor), "")
    return (9, 0, 0, version)
