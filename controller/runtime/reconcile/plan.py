"""A plan: everything one reconcile wants to do, as a value.

Planners are pure functions from an observation and the time to a `Plan`. A plan prints well, can
be compared, and is carried out by `execute.py`; nothing in here does anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.kube.resources import Resource
    from controller.runtime.reconcile.external import ExternalCommand, Subscription


@dataclass(frozen=True, slots=True)
class Event:
    """What a user should read in `kubectl describe` (events.k8s.io/v1, rules EVT-1..6).

    Attributes:
        type: `Normal` or `Warning`.
        reason: CamelCase, KubeRay's names where there is one: `CreatedWorkerPod`.
        action: `Create`, `Delete`, `Update`, `Validate`, `Reconcile`.
        note: one sentence, at most 1024 bytes; longer ones are cut when sent.
        aggregate_note: replaces the notes of many events that differ only in their notes;
            `{count}` in it stands for their number. Empty: each event is recorded by itself.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    aggregate_note: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """The object that a write is about.

    `scope` names the part of the owner whose numbers depend on this write (`head`,
    `worker/small-group`). While the outcome of a write is unknown, its scope makes and deletes
    nothing.
    """

    resource: Resource[Any]
    namespace: str
    name: str
    scope: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class ReplicaMember:
    """The place of an object in a unit whose members are made one after the other.

    The runtime remembers how far a unit has come, so that a planner can tell a unit that this
    process is still making from one that has lost a member.

    Attributes:
        replica: name of the unit, never used for another one.
        position: of this member, from 0.
        size: members of the whole unit.
    """

    replica: str
    position: int
    size: int


@dataclass(frozen=True, slots=True)
class Create:
    """POST `body` under a name chosen by the planner; repetitions use the same name.

    `secret` gives what is merged into the body for each request and kept nowhere: random tokens.
    """

    target: Target
    body: Mapping[str, Any]
    member: ReplicaMember | None = None
    on_success: Event | None = None
    secret: Callable[[], Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class MergePatch:
    """JSON merge patch of maps and scalars that we own.

    `resource_version` is put into the patch as precondition; required where the patch holds a
    list. `uid` likewise guards against a namesake.
    """

    target: Target
    uid: str
    patch: Mapping[str, Any]
    subresource: Literal["", "status"] = ""
    resource_version: str | None = None
    on_success: Event | None = None


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """RFC 6902 patch; preconditions are `test` operations inside `operations`."""

    target: Target
    uid: str
    operations: tuple[Mapping[str, Any], ...]
    subresource: Literal["", "status"] = ""
    on_success: Event | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """Live GET, change of the owned paths by `merge`, PUT with resourceVersion.

    For resources whose KubeRay RBAC grants no `patch`.
    """

    target: Target
    uid: str
    merge: Mapping[str, Any]
    on_success: Event | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE with the uid as precondition. 404 and another uid both mean done."""

    target: Target
    uid: str
    grace_seconds: int | None = None
    propagation: Literal["Background", "Foreground", "Orphan"] | None = None
    on_success: Event | None = None


Write: TypeAlias = Create | MergePatch | JsonPatch | Replace | Delete


@dataclass(frozen=True, slots=True)
class Lookup:
    """A live GET that must be answered before the planner can decide."""

    target: Target

    @property
    def subject(self) -> str:
        """What is read, for messages."""
        return f"{self.target.resource.kind} {self.target.name}"


@dataclass(frozen=True, slots=True)
class LiveList:
    """A live list that must be answered before the planner can decide.

    What it finds of the owner's and the caches do not show becomes visible: for decisions that
    need to know that nothing is left.
    """

    resource: Resource[Any]
    namespace: str
    label_selector: str

    @property
    def subject(self) -> str:
        """What is read, for messages."""
        return f"the list of {self.resource} with {self.label_selector}"


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last lines of a container's log, which the planner wants before it goes on.

    The newest pod of the selection is asked once. Whatever comes of it is an answer, so that no
    plan waits for a log that cannot be had; `CacheReader.log_tail` gives it. The newest eight of an
    object are kept.
    """

    namespace: str
    label_selector: str
    container: str
    lines: int = 20
    limit_bytes: int = 4096

    @property
    def subject(self) -> str:
        """What is read, for messages."""
        return f"the log of {self.container} in pods with {self.label_selector}"


@dataclass(frozen=True, slots=True)
class StatusPatch:
    """The complete wanted values of the status fields that we own.

    Compared with what is there; equal means no request. `urgent` is False when only counters
    move: such writes are limited to one a second per object. `events` tell of a transition in
    it: they are recorded with the write, so that a transition that is stored is told once,
    whoever restarts. After `valid_for` seconds it says something else although nothing happened;
    None if only events matter.
    """

    wanted: Mapping[str, Any]
    urgent: bool = True
    events: tuple[Event, ...] = ()
    valid_for: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What one reconcile does, in this order: lookups, commit, commands, stages, aside, status.

    Attributes:
        lookups: live reads; when there are any, nothing else of the plan is done and the key is
            planned again with their answers.
        commit: state that authorises a side effect, persisted before it; if that fails or its
            outcome is unknown, the reconcile ends.
        commands: for the kind's `outside`, handed over once `commit` is stored; each has an
            identity of its own, so that handing it over again repeats nothing.
        subscriptions: all that `outside` is to observe for the object from now on, also while
            lookups are made.
        stages: writes; those of one stage run concurrently, a stage starts when all of the one
            before succeeded.
        independent: writes that no stage waits for; made after the stages, whatever became of them.
        status: written last, also after failed stages.
        events: recorded first, whatever happens to the writes.
        requeue_after: seconds until the key must be looked at again, None if only events matter.
    """

    lookups: tuple[Lookup | LiveList | LogTail, ...] = ()
    commit: MergePatch | JsonPatch | None = None
    commands: tuple[ExternalCommand, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    stages: tuple[tuple[Write, ...], ...] = ()
    independent: tuple[Write, ...] = ()
    status: StatusPatch | None = None
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A write that did not succeed: what was tried, and the server's words."""

    write: Write
    reason: str
    message: str
    unknown: bool = False


NOTHING = Plan()
