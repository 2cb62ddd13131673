"""Objects with what belongs to them, as data: `-o json` prints it, `text` draws it."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  msgspec reads it

import msgspec


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A pod: `state` is `ready`, `deleting`, `draining`, or the reason why it is not ready."""

    name: str
    state: str
    cause: str
    node: str
    restarts: int
    created: str


class GroupStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The head, whose name is `headgroup`, or a group of workers; CPUs and GPUs as specified."""

    name: str
    desired: int
    ready: int
    cpus: str
    gpus: str
    pods: tuple[PodStatus, ...]


class ObjectStatus(msgspec.Struct, frozen=True, rename="camel"):
    """An object of one of the kinds, or what belongs to it.

    Attributes:
        kind: its kind.
        namespace: its namespace.
        name: its name.
        state: one word or two.
        detail: what else its kind says in short; may be empty.
        cause: the first cause why it is not as specified; empty if it is, or nothing tells.
        created: when it was created, RFC 3339.
        cpus: CPUs that it asks for; empty if its status does not say.
        gpus: GPUs, likewise.
        notes: what other conditions report.
        children: objects that belong to it.
        groups: of a RayCluster: head and workers.
        pods: other pods of it, such as a job's submitter.
    """

    kind: str
    namespace: str
    name: str
    state: str
    detail: str
    cause: str
    created: str
    cpus: str
    gpus: str
    notes: tuple[str, ...] = ()
    children: tuple[ObjectStatus, ...] = ()
    groups: tuple[GroupStatus, ...] = ()
    pods: tuple[PodStatus, ...] = ()


class EventStatus(msgspec.Struct, frozen=True, rename="camel"):
    """An event about an object of the tree."""

    time: datetime
    type: str
    reason: str
    object: str
    note: str
    count: int


class Tree(msgspec.Struct, frozen=True, rename="camel"):
    """An object, the last events about it and what belongs to it, and what could not be read."""

    object: ObjectStatus
    events: tuple[EventStatus, ...]
    missing: tuple[str, ...]


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    """Objects without what belongs to them, each after its owner; what could not be read."""

    objects: tuple[ObjectStatus, ...]
    missing: tuple[str, ...]
