"""Parsing of URL paths: API group, version, resource, namespace, name and subresource."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A path that names a resource.

    Attributes:
        group: API group, empty for the core group.
        version: API version.
        plural: resource.
        namespace: namespace, empty for none or all.
        name: object name, empty for the collection.
        subresource: first part behind the name.
        rest: path behind the subresource, for proxies, with leading slash.
    """

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""


def parse_resource_path(path: str) -> ResourcePath | None:
    """Parse a path; None if it cannot name a resource."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    behind = path.split(f"/{name}/{subresource}", 1) if subresource else [path]
    return ResourcePath(
        group,
        version,
        plural,
        namespace,
        name,
        subresource,
        behind[1] if len(behind) > 1 else "",
    )
