"""Lanes: requests of one verb on one resource in one namespace, which succeed or fail alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.kube.transport import Request

_WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCES_OF_NAMESPACES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Lane:
    """The scope of an answer: the requests to which it applies.

    Attributes:
        verb: verb of RBAC: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
        resource: name for RBAC, with group and subresource: `rayclusters.ray.io/status`; the path
            itself if it belongs to no resource.
        namespace: empty for all namespaces and for cluster-scoped resources.
    """

    verb: str
    resource: str
    namespace: str = ""

    @property
    def writes(self) -> bool:
        """True if its requests pass admission, where any user's webhook may hang or refuse them."""
        return self.verb not in {"get", "list", "watch"}


def lane_of(request: Request) -> Lane:
    """Return the lane of a request."""
    group, rest = _split(request.path)
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in _SUBRESOURCES_OF_NAMESPACES:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", "", ""][:3]
    verb = _WRITES.get(request.method, "get" if name else "list")
    if request.watching:
        verb = "watch"
    if not plural:
        return Lane("get" if verb == "list" else verb, request.path)
    resource = f"{plural}.{group}" if group else plural
    return Lane(verb, f"{resource}/{subresource}" if subresource else resource, namespace)


def _split(path: str) -> tuple[str, list[str]]:
    """Return the API group in a path and the parts after the version; none for no resource."""
    match [part for part in path.split("/") if part]:
        case ["api", _, *rest]:
            return "", rest
        case ["apis", group, _, *rest]:
            return group, rest
        case _:
            return "", []
