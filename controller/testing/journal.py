"""Records what passed between client and server: requests with their outcomes, and events.

Requests are described in the terms of RBAC: `create pods`, not `POST /api/v1/...`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from controller.kube.transport import Request

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
"""Verbs that change something."""

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_NAMESPACES = {"status", "finalize"}


class Attributes(msgspec.Struct, frozen=True):
    """The RBAC attributes of a request.

    Attributes:
        verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
        resource: `pods`, `rayclusters.ray.io`; empty for paths that are no resource.
        namespace: empty for all namespaces and for cluster-scoped resources.
        name: for `create` that of the body.
        subresource: `status`, `proxy`; empty for the object itself.
    """

    verb: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def writes(self) -> bool:
        """Whether the request changes something in the API server."""
        return self.verb in WRITES and self.subresource != "proxy"


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_named = msgspec.json.Decoder(_Named)


def attributes_of(request: Request) -> Attributes:
    """Describe `request`."""
    parts = [part for part in request.path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Attributes(request.method.lower())
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *_ = [*rest, "", ""]
    verb = _verb(request, name)
    if verb == "create" and not name:
        name = _name_in(request.body)
    resource = f"{plural}.{group}" if group else plural
    return Attributes(verb, resource, namespace, name, subresource)


def _verb(request: Request, name: str) -> str:
    if request.method in {"GET", "HEAD"}:
        if request.watching:
            return "watch"
        return "get" if name else "list"
    verb = _VERBS.get(request.method, request.method.lower())
    return "deletecollection" if verb == "delete" and not name else verb


def _name_in(body: bytes | None) -> str:
    try:
        return _named.decode(body or b"{}").metadata.name
    except msgspec.DecodeError:
        return ""


class EventAttributes(msgspec.Struct, frozen=True):
    """The attributes of one line of a watch.

    Attributes:
        type: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`; empty for an unreadable line.
        namespace: of the object.
        name: of the object, empty for bookmarks and errors.
    """

    type: str = ""
    namespace: str = ""
    name: str = ""


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    object: _Named = _Named()


_event = msgspec.json.Decoder(_Event)


def attributes_of_event(line: bytes) -> EventAttributes:
    """Describe one line of a watch."""
    try:
        event = _event.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return EventAttributes()
    metadata = event.object.metadata
    return EventAttributes(event.type, metadata.namespace, metadata.name)


@dataclass(slots=True)
class JournalEntry:
    """One request and its outcome.

    Attributes:
        number: position in the journal, from 0.
        attributes: verb, resource, namespace and name.
        outcome: the status as text; `pending`, `refused`, `lost request`, `lost answer`,
            `failed` (the inner transport raised) or `severed`.
        forwarded: whether it reached the inner transport.
        body: of the request.
    """

    number: int
    attributes: Attributes
    outcome: str = "pending"
    forwarded: bool = False
    body: bytes = field(default=b"", repr=False)


class DeliveredEvent(msgspec.Struct, frozen=True):
    """One line of a watch that reached the client."""

    resource: str
    line: bytes

    @property
    def event(self) -> EventAttributes:
        """Its attributes; few tests ask for them."""
        return attributes_of_event(self.line)


@dataclass
class Journal:
    """Every request and every event that arrived, in order."""

    entries: list[JournalEntry] = field(default_factory=list[JournalEntry])
    events: list[DeliveredEvent] = field(default_factory=list[DeliveredEvent])

    @property
    def writes(self) -> list[JournalEntry]:
        """The requests that change something, in order."""
        return [entry for entry in self.entries if entry.attributes.writes]
