"""The interface between the runtime and a kind.

A kind is a subclass of `Kind`. Its `observe`, for which there is a default, collects everything
that the decision depends on from a `CacheReader`; its `plan` is a pure function of that and the
time. Both are synchronous. The runtime does the rest: events, queue, writes, retries, expectations,
logs and metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from msgspec import Struct, field

from controller.apimachinery.metadata import is_owned_by, ownership_text
from controller.apimachinery.object_schema import ObjectSchema
from controller.apimachinery.validation import Problem
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import Resource
from controller.runtime.children import Seen
from controller.runtime.plan import AnyExternalSource, Failure, Plan, StatusPatch

if TYPE_CHECKING:
    from controller.runtime.record import Record

T = TypeVar("T", bound=KubeObject)
Observation = TypeVar("Observation")

OWNER_INDEX = "owner"
"""Index by uid of the owner (`apimachinery.metadata`), present for every owned resource. Planners
read it with `owned_by`.
"""


NAMESPACE_TERMINATING = "NamespaceTerminating"
"""Reason of a create error that is permanent: the namespace is being deleted."""


class CreateError(Struct, frozen=True):
    """The error with which the server rejected a create.

    Attributes:
        reason: reason of the Status, `Forbidden`, or `NamespaceTerminating`.
        message: the server's message.
    """

    reason: str
    message: str


class InstalledSchema(Struct, frozen=True):
    """The schema of a resource that the API server publishes.

    Attributes:
        schema: None if it is not known.
        error: why the last attempt to read it failed; empty after a success or before the first.
        previous: another one by which cached objects may have been read; None if there is none.
        is_current: whether it was read since the watch of the objects began, or never can be; until
            then it is not certain that cached objects were read by it.
    """

    schema: ObjectSchema | None = None
    error: str = ""
    previous: ObjectSchema | None = None
    is_current: bool = True


class LogText(Struct, frozen=True):
    """The result of a `LogTail`.

    Attributes:
        text: the lines; empty if nothing was written.
        unavailable: a sentence about why there is no text, empty if there is.
    """

    text: str = ""
    unavailable: str = ""


class FailedCreate(Struct, frozen=True):
    """The result of a `FailedCreates`.

    Attributes:
        asked_at: the time of the lookup.
        message: why the last pod could not be created; empty if no event tells of one.
        unavailable: why the events cannot be read; empty if they can.
    """

    asked_at: datetime
    message: str = ""
    unavailable: str = ""


class Unreadable(Struct, frozen=True):
    """An object that exists and cannot be decoded.

    Attributes:
        metadata: the fields of its metadata that can be decoded.
        reason: field and problem.
    """

    metadata: ObjectMeta
    reason: str


class ObjectUnreadable(Exception):  # noqa: N818  named after what is wrong
    """A plan depends on an object that exists and cannot be decoded: its owner stays as it is."""

    def __init__(self, kind: str, key: str, reason: str) -> None:
        super().__init__(f"{kind} {key} cannot be decoded: {reason}; correct that field")
        self.reason = "Unreadable"


class References(Struct, Generic[T], frozen=True):
    """References of primaries to objects that they do not own, such as by a name in their status.

    An event of an object enqueues the primaries for which `of_primary` gives one of the keys that
    `of_object` gives for it. The caches look them up in an index of the primaries, or of objects
    that the primaries own, such as pods that name their node.

    Attributes:
        index: name of the index.
        of_primary: index function: the keys that a primary, or what it owns, refers to.
        of_object: the keys that an object is referred to by.
        through: the owned resource that refers; None for the primaries themselves.
    """

    index: str
    of_primary: Callable[[Any], Sequence[str]]
    of_object: Callable[[T], Sequence[str]]
    through: Resource[Any] | None = None


class Owned(Struct, Generic[T], frozen=True):
    """A resource whose objects a kind creates, counts and deletes.

    Attributes:
        resource: what is watched.
        label_selector: limits list and watch; one resource has one selector in the process.
        indexes: index functions besides `owner`.
        also_enqueues: keys ("namespace/name" of primaries) that an event of this object enqueues
            besides its controller owner's, for objects that are selected by label.
        references: finds primaries that refer to an object, which an event of it enqueues too.
        optional: whether the API server may lack it. Then there is no cache of it, and it must
            not be read: `CacheReader.serves` tells. It is watched when it is installed later, and
            all primaries are planned again.
    """

    resource: Resource[T]
    label_selector: str = ""
    indexes: Mapping[str, Callable[[T], Sequence[str]]] = field(
        default_factory=dict[str, Callable[[T], Sequence[str]]]
    )
    also_enqueues: Callable[[T], Sequence[str]] | None = None
    references: References[T] | None = None
    optional: bool = False


class OwnerIdentity(Protocol):
    """The identity of an owner of objects, which its metadata have."""

    @property
    def namespace(self) -> str:
        """Namespace of the owner and of its objects, empty if it is cluster-scoped."""
        ...

    @property
    def uid(self) -> str:
        """Uid of the owner."""
        ...


def owned_by(reads: CacheReader, resource: Resource[T], owner: OwnerIdentity) -> list[T]:
    """Return the objects of an owner, in no particular order (CTL-28).

    An owner reference counts in the owner's namespace only. A copy of an object in another
    namespace has it too; it belongs to nobody, and the garbage collector deletes it.
    """
    found = reads.by_index(resource, OWNER_INDEX, owner.uid)
    if not found:
        return found
    namespace = owner.namespace if resource.namespaced else ""
    return [each for each in found if each.metadata.namespace == namespace]


def other_owner(reads: CacheReader, resource: Resource[Any], key: str, uid: str) -> str:
    """Return a predicate about the owner of a name that is not free for `uid`; empty if it is."""
    found = reads.get(resource, key)
    if found is not None:
        return "" if is_owned_by(found.metadata, uid) else ownership_text(found.metadata)
    return ownership_text(None) if reads.record(uid).has_name_conflict(resource, key) else ""


class CacheReader(Protocol):
    """The caches overlaid with the process's own writes: never older than what it did itself.

    Synchronous and consistent during one `observe`. Objects are immutable.
    """

    @property
    def clock_jumped_at(self) -> datetime | None:
        """The time of day after its last jump in this process, None if there was none.

        How much time has passed since an earlier moment is not known.
        """
        ...

    @property
    def clock_steady_since(self) -> datetime | None:
        """The time of day since which this process leads and its clock has not jumped.

        It has written no time in the future since then. None if it is not known.
        """
        ...

    def get(self, resource: Resource[T], key: str) -> T | None:
        """Return the object `namespace/name`, or None."""
        ...

    def serves(self, resource: Resource[Any]) -> bool:
        """Return whether the API server has this optional resource, and it can be read."""
        ...

    def by_index(self, resource: Resource[T], index: str, value: str) -> list[T]:
        """Return all objects whose index function gives `value`, in no particular order."""
        ...

    def revision(self, resource: Resource[Any], owner_uid: str) -> str:
        """Return the newest revision observed, of the store or of a response for this owner."""
        ...

    def record(self, owner_uid: str, /) -> Record:
        """Return what the process remembers of an object: its writes and its plan's lookups."""
        ...

    def unreadable(self, resource: Resource[Any], namespace: str) -> Mapping[str, Unreadable]:
        """Return objects that exist but cannot be decoded, by name.

        All other methods omit them: a caller that counts must not take them for absent.
        """
        ...

    def installed_schema(self, resource: Resource[Any]) -> InstalledSchema:
        """Return the published schema of pods, or of a resource that is some kind's primary."""
        ...

    def is_verified(self, resource: Resource[Any], key: str) -> bool:
        """Return whether the schema of a primary was read since it got its present generation."""
        ...


class Kind(Generic[Observation]):
    """One kind of object that the operator reconciles: a subclass names `primary`, writes `plan`.

    A kind with an observation of its own writes `observe` and `status_after` too.

    Attributes:
        primary: the resource whose objects have the keys.
        name: name of the controller in logs and metrics, unique: `raycluster-controller`, which is
            also the default.
        owned: resources whose events enqueue the key of their controller owner (CTL-21, CTL-24).
        creates: primary resources of other kinds that plans of this kind create objects of. A dry
            run follows these to the kinds that reconcile the created objects.
        optional: whether the API server may lack the primary resource: then this kind has no
            objects.
        external_source: the external system that plans of this kind use, None if there is none.
        unready_reason: the first reason of `Ready` if the API of the kind defines its reasons, else
            empty. A fault of the operator itself is then reported in the message, and changes
            nothing else.
    """

    primary: Resource[Any]
    name: str = ""
    owned: tuple[Owned[Any], ...] = ()
    creates: tuple[Resource[Any], ...] = ()
    optional: bool = False
    external_source: AnyExternalSource | None = None
    unready_reason: str = ""

    def __init_subclass__(cls, **more: Any) -> None:
        """Name the controller after the resource, if the class has no name of its own."""
        super().__init_subclass__(**more)
        if "primary" in cls.__dict__ and "name" not in cls.__dict__:
            cls.name = f"{cls.primary.kind.lower()}-controller"

    def observe(self, key: str, reads: CacheReader, /) -> Observation | None:
        """Return what the plan depends on, None if the object does not exist. No I/O.

        By default that is a `Seen`: the object with its children.
        """
        obj: KubeObject | None = reads.get(self.primary, key)
        if obj is None:
            return None
        meta = obj.metadata
        served = [each.resource for each in self.owned if reads.serves(each.resource)]
        children = {resource: owned_by(reads, resource, meta) for resource in served}
        record = reads.record(meta.uid)
        seen = Seen(
            self.primary,
            obj,
            {
                resource: {child.metadata.name: child for child in found}
                for resource, found in children.items()
            },
            {resource: _blocked(reads, resource, meta) for resource in served},
            record.pending_scopes,
            record.consistency_warnings,
        )
        return cast("Observation", seen)

    def problem(self, observation: Observation, /) -> Problem | None:  # noqa: ARG002
        """Return the first problem of the object's specification, None if it is valid.

        Plans for an invalid object create nothing.
        """
        return None

    def edit_problem(self, before: Any, after: Any, /) -> Problem | None:  # noqa: ARG002
        """Return the problem of an edit of a valid object, None if it is allowed.

        Args:
            before: the object as it is stored.
            after: as it is to be, also valid.
        """
        return None

    def plan(self, observation: Observation, now: datetime, /) -> Plan:
        """Return the plan for an observation. Pure.

        Raises:
            controller.runtime.kind.Terminal: a retry is pointless until something changes.
        """
        raise NotImplementedError

    def outlook(self, observation: Observation, now: datetime, /) -> Iterable[str]:  # noqa: ARG002
        """Return sentences for `manta plan` about what may happen to the object later. Pure."""
        return ()

    def status_after(
        self,
        observation: Observation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
        /,
    ) -> StatusPatch | None:
        """Return the plan's status when these writes failed, which names the first cause."""
        return cast("Seen[Any]", observation).failed(plan, failures, now)


def missing_members(kind: Kind[Any]) -> tuple[str, ...]:
    """Return what a kind lacks, as sentences; the operator does not start without it."""
    inherited = {name for name, of in vars(Kind).items() if getattr(type(kind), name, None) is of}
    missing = [] if hasattr(kind, "primary") else ["primary, the resource that it reconciles"]
    if "plan" in inherited:
        missing.append("plan(observation, now), which returns what is to be done")
    if "status_after" in inherited and "observe" not in inherited:
        missing.append("status_after(...), because its observation is its own")
    return tuple(missing)


def _blocked(reads: CacheReader, resource: Resource[Any], owner: ObjectMeta) -> dict[str, str]:
    """Return the names under which this owner can create nothing, each with a sentence why."""
    kind, namespace = resource.kind, owner.namespace if resource.namespaced else ""
    taken = {
        name: f"{kind} {name} belongs to another owner: delete or rename one of the two"
        for name in reads.record(owner.uid).name_conflicts(resource)
    }
    odd = reads.unreadable(resource, namespace).items()
    return taken | {name: f"{kind} {name} cannot be decoded: {each.reason}" for name, each in odd}


# Errors of the runtime.
#
# RuntimeFailure
# +-- Terminal            this object cannot be reconciled until it changes; no retry
# +-- SyncTimeout         a cache never became complete; the message names cause and remedy
# +-- ServerUnusable      the API server went back in time, or its revisions cannot be compared
# +-- ManagerMisuse       started twice, or added to while stopping
# +-- LeadershipLost      another process holds the lease: this process must end
# +-- StopTimeout         something did not end within the grace period


def leaves(error: Exception) -> list[Exception]:
    """Return the errors inside nested groups; the error itself if it is not a group.

    The text of a group, "unhandled errors in a TaskGroup", does not help a user.
    """
    if not isinstance(error, ExceptionGroup):
        return [error]
    nested = cast("ExceptionGroup[Exception]", error)
    return [leaf for inner in nested.exceptions for leaf in leaves(inner)]


class RuntimeFailure(Exception):  # noqa: N818  root of the tree
    """Root of the tree."""


class Terminal(RuntimeFailure):
    """Raised by `Kind.plan`: no retry until an event says that something changed.

    `reason` is CamelCase, for the event on the object.
    """

    def __init__(self, message: str, *, reason: str = "TerminalError") -> None:
        super().__init__(message)
        self.reason = reason


class SyncTimeout(RuntimeFailure):
    """Caches did not become complete in time (CTL-5); one paragraph with cause and remedy."""


class ServerUnusable(RuntimeFailure):
    """What is cached cannot be compared with the API server; one paragraph with the remedy."""


class ManagerMisuse(RuntimeFailure):
    """The manager was started twice, or a runnable was added while it was stopping."""


class LeadershipLost(RuntimeFailure):
    """Another process leads now; this one must end at once."""


class StopTimeout(RuntimeFailure):
    """Tasks did not end within the grace period and were abandoned."""
