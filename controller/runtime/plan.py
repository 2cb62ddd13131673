"""A plan: everything that one reconcile does, as a value.

Planners are pure functions from an observation and the time to a `Plan`. Plans can be printed and
compared; `executor.py` carries them out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from controller.kube.resources import Resource


class Event(Struct, frozen=True):
    """An event for `kubectl describe` (events.k8s.io/v1).

    Attributes:
        type: `Normal` or `Warning`.
        reason: CamelCase, KubeRay's names where there is one: `CreatedWorkerPod`.
        action: `Create`, `Delete`, `Update`, `Validate`, `Reconcile`.
        note: one sentence, at most 1024 bytes; longer ones are cut when sent.
        aggregate_note: replaces the notes of many events that differ only in their notes;
            `{count}` in it stands for their number. The notes of a few are joined. Empty: each
            event is recorded by itself.
        quotes: the note quotes an error whose text may vary each time. Events that differ only in
            what varies are one series, with the first note.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    aggregate_note: str = ""
    quotes: bool = False


class Target(Struct, frozen=True):
    """The object that a write is about.

    `scope` names the part of the owner whose numbers depend on this write (`head`,
    `worker/small-group`). While the outcome of a write is unknown, nothing is created or
    deleted in its scope.
    """

    resource: Resource[Any]
    namespace: str
    name: str
    scope: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ReplicaMember(Struct, frozen=True):
    """The position of an object in a replica whose members are created one after the other.

    The runtime remembers how many members exist, so that a planner can tell a replica that this
    process is still creating from one that has lost a member.

    Attributes:
        replica: name of the replica, never used for another one.
    """

    replica: str
    position: int
    size: int


@dataclass(frozen=True, slots=True)
class SecretContent:
    """Makes what is merged into the body of each request and kept nowhere, such as a random token.

    It shows nothing and equals any other, so that plans can be printed and compared.

    Attributes:
        make: gets the object that `reads` of the write names, read live, if it names one; a
            `ValueError` of it fails the write with its text.
    """

    make: Callable[..., Mapping[str, Any]] = dataclasses.field(repr=False, compare=False)

    def __call__(self, *source: Any) -> Mapping[str, Any]:
        """Make it for one request."""
        return self.make(*source)


class Create(Struct, frozen=True):
    """POST `body` under a name chosen by the planner; repetitions use the same name.

    `secret` completes the body, from the object that `reads` names.
    """

    target: Target
    body: Mapping[str, Any]
    member: ReplicaMember | None = None
    on_success: Event | None = None
    secret: SecretContent | None = None
    reads: Target | None = None


class MergePatch(Struct, frozen=True):
    """JSON merge patch of maps and scalars that we own.

    `uid` and `resource_version` are sent as preconditions; the latter is required if the patch
    contains a list.
    """

    target: Target
    uid: str
    patch: Mapping[str, Any]
    subresource: Literal["", "status"] = ""
    resource_version: str | None = None
    on_success: Event | None = None


class JsonPatch(Struct, frozen=True):
    """RFC 6902 patch; preconditions are `test` operations inside `operations`."""

    target: Target
    uid: str
    operations: tuple[Mapping[str, Any], ...]
    subresource: Literal["", "status"] = ""
    on_success: Event | None = None


class Replace(Struct, frozen=True):
    """Live GET, then PUT of the object with `merge` applied, under its resourceVersion.

    For resources for which KubeRay's RBAC grants no `patch`. `secret` and `reads` are as those of
    `Create`.
    """

    target: Target
    uid: str
    merge: Mapping[str, Any]
    on_success: Event | None = None
    secret: SecretContent | None = None
    reads: Target | None = None


class Delete(Struct, frozen=True):
    """DELETE with the uid as precondition. A 404 or another uid counts as success."""

    target: Target
    uid: str
    grace_seconds: int | None = None
    propagation: Literal["Background", "Foreground", "Orphan"] | None = None
    on_success: Event | None = None


Change: TypeAlias = MergePatch | JsonPatch | Replace

Write: TypeAlias = Create | Change | Delete


def verb_of(write: Write) -> Literal["create", "update", "delete"]:
    """Return the verb for people; patches and replacements are updates."""
    match write:
        case Create():
            return "create"
        case Delete():
            return "delete"
        case _:
            return "update"


def subresource_of(write: Write) -> Literal["", "status"]:
    """Return the part of the object that the write is about, empty for all but the status."""
    match write:
        case MergePatch() | JsonPatch():
            return write.subresource
        case _:
            return ""


class Lookup(Struct, frozen=True):
    """A live GET that the planner needs before it can decide."""

    target: Target


class LiveList(Struct, frozen=True):
    """A live list that the planner needs before it can decide.

    Objects of the owner that it returns and no cache shows become visible to `observe`. It is for
    decisions that require that no object is left.
    """

    resource: Resource[Any]
    namespace: str
    label_selector: str


class LogTail(Struct, frozen=True):
    """The last lines of a container's log, which the planner needs before it continues.

    The log of the newest selected pod is read once. A failure is a result too, so that no plan
    waits for a log that is unavailable. `Record.log_tail` returns the result; the newest eight
    of an object are kept.

    Attributes:
        label_selector: selects the pods, if `pod` names none.
        pod: name of the pod; empty for the newest one that is selected.
        previous: whether the log is that of the run before the present one.
        restarts: the container's restarts so far, by which later logs are told from this one.
    """

    namespace: str
    label_selector: str
    container: str
    lines: int = 20
    limit_bytes: int = 4096
    pod: str = ""
    previous: bool = False
    restarts: int = 0


class FailedCreates(Struct, frozen=True):
    """The events of an object about pods that it could not create.

    A failure is a result too. `Record.failed_create` returns the last result.

    Attributes:
        asked_at: the time, by which the planner knows how old a result is.
    """

    namespace: str
    uid: str
    asked_at: datetime


AnyLookup: TypeAlias = Lookup | LiveList | LogTail | FailedCreates


def subject_of(lookup: AnyLookup) -> str:
    """Describe the lookup for messages."""
    match lookup:
        case Lookup(target):
            return f"{target.resource.kind} {target.name}"
        case LiveList(resource, _, selector):
            return f"the list of {resource} with {selector}"
        case LogTail(_, selector, container):
            return f"the log of {container} in {lookup.pod or f'pods with {selector}'}"
        case FailedCreates(_, uid):
            return f"the events of the object with uid {uid}"


class PhaseDuration(Struct, frozen=True):
    """The duration of a phase in an object's life that has just ended, in seconds."""

    phase: str
    seconds: float


class StatusPatch(Struct, frozen=True):
    """The complete wanted values of the status fields that we own.

    No request is sent if they equal the present ones. `urgent` is False if only counters or texts
    change: then it is written `interval` seconds after the last write of the object's status.
    `events` report a transition in the status: they are recorded with the write, so that each
    stored transition is reported once, also across restarts. The status is valid for `valid_for`
    seconds; None if only an event can change it. `stamps` are fields such as the time of the last
    write: written with a change, never alone. `phases` ended with a transition in the status: they
    are measured once it is stored. `settles` is the number of seconds for which a change is held
    back, so that what follows soon is written with it: for a status that goes to and fro. `records`
    are types of conditions whose messages the next plan reads: a new one is written like a new
    reason, and is not held back.
    """

    wanted: Mapping[str, Any]
    urgent: bool = True
    interval: float = 1.0
    events: tuple[Event, ...] = ()
    valid_for: float | None = None
    stamps: Mapping[str, Any] = field(default_factory=dict[str, Any])
    phases: tuple[PhaseDuration, ...] = ()
    settles: float = 0.0
    records: frozenset[str] = frozenset()


class Plan(Struct, frozen=True):
    """The steps of one reconcile: lookups, commit, commands, stages, independent writes, status.

    Attributes:
        lookups: live reads; if there are any, nothing else of the plan is done and the key is
            planned again with their results.
        commit: state that authorises a side effect, persisted before it; if that fails or its
            outcome is unknown, the reconcile ends.
        commands: submitted to the kind's external source once `commit` is stored; each has an
            identity of its own, so that submitting it again repeats nothing.
        subscriptions: everything that the external source observes for the object from now on,
            also while lookups are made.
        stages: writes; those of one stage run concurrently, a stage starts when all of the one
            before succeeded.
        independent: writes that no stage waits for; sent after the stages, even if those failed.
        status: written last, also after failed stages.
        events: recorded first, whether the writes succeed or not.
        requeue_after: seconds until the key must be reconciled again, None if only after an event.
        memory: the `Record.memory` that the object's next plan reads, until the process ends; None
            to leave it as it is.
    """

    lookups: tuple[AnyLookup, ...] = ()
    commit: MergePatch | JsonPatch | None = None
    commands: tuple[ExternalCommand, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    stages: tuple[tuple[Write, ...], ...] = ()
    independent: tuple[Write, ...] = ()
    status: StatusPatch | None = None
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
    memory: Any = None


def stages_of(*groups: Iterable[Write]) -> tuple[tuple[Write, ...], ...]:
    """Return the value of `Plan.stages` for these groups of writes, without empty groups."""
    return tuple(filter(None, map(tuple, groups)))


DELETED_AGAIN: Final = "DeletedAgain"
"""Reason of the failure that reports an object which others keep deleting."""


class Failure(Struct, frozen=True):
    """A write that did not succeed, with the server's reason and message.

    Attributes:
        reason: the server's, or the kind of the error.
        unknown: the response was lost, or does not say whether the write was carried out.
        overdue: the outcome has been unknown for longer than a moment.
    """

    write: Write
    reason: str
    message: str
    unknown: bool = False
    overdue: bool = False

    @property
    def may_resolve(self) -> bool:
        """True if the outcome will probably be known in a moment."""
        return self.unknown and not self.overdue


NOTHING = Plan()


# A system besides the API server that a kind uses without waiting for it.
#
# Workers only declare what to observe and submit commands. The external source sends the requests,
# retries and gives up at its own pace, and enqueues a key when its observation or outcome changes.


class Subscription:
    """Base class: an observation of an external system that an object needs."""

    __slots__ = ()


class ExternalCommand:
    """Base class: an action in an external system on behalf of an object.

    Each has an identity of its own, so that submitting it again repeats nothing.
    """

    __slots__ = ()


SubscriptionT_contra = TypeVar("SubscriptionT_contra", bound=Subscription, contravariant=True)
CommandT_contra = TypeVar("CommandT_contra", bound=ExternalCommand, contravariant=True)


class ExternalSource(Protocol[SubscriptionT_contra, CommandT_contra]):
    """The interface to an external system. Only `aclose` may wait, and no method may raise."""

    def start(self, enqueue: Callable[[str], None]) -> None:
        """Call `enqueue` with a key from now on when an observation or outcome of it has changed.

        Called once, before any other method.
        """
        ...

    def sync(self, key: str, subscriptions: tuple[SubscriptionT_contra, ...]) -> None:
        """Replace the subscriptions of this object.

        Called after every plan, and with none when the object no longer exists.
        """
        ...

    def submit(self, key: str, commands: tuple[CommandT_contra, ...]) -> None:
        """Carry out commands whose identities are stored, each only once."""
        ...

    async def aclose(self) -> None:
        """Stop everything of this controller. Called when its workers have ended."""
        ...


AnyExternalSource: TypeAlias = ExternalSource[Any, Any]
"""An external source whose types of subscriptions and commands only its kind knows."""


# Replaces many similar events with one, so that their number does not grow with the pods.
#
# Each event is a request and a line in `kubectl describe`, and the spam filter passes only 25 about
# one object at once: a thousand events about created pods would hide all others.

MAX_JOINED = 4
"""Maximum similar events of one reconcile whose notes are joined; more are only counted."""


def aggregate_events(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of one reconcile; similar ones become one, with all notes or a count."""
    like: dict[Event, list[Event]] = {}
    for event in events:
        kind = replace(event, note="") if event.aggregate_note else event
        like.setdefault(kind, []).append(event)
    for kind, members in like.items():
        if not kind.aggregate_note:
            yield from members
        elif len(members) > MAX_JOINED:
            yield replace(kind, note=kind.aggregate_note.replace("{count}", str(len(members))))
        else:
            yield replace(kind, note="; ".join(each.note for each in members))
