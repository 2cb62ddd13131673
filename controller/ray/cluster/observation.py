"""The input of a RayCluster's plan: the desired and the present state.

Both are values: the same ones give the same plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from controller.apimachinery.conditions import JobEnd, job_end, time_of
from controller.apimachinery.custom_object import IdentityMemo, status_of
from controller.apimachinery.validation import Problem
from controller.kube.objects import Job, Pod, PodDisruptionBudget
from controller.ray.api import labels
from controller.ray.api.names import HEAD_POD_READY, SUSPENDED, SUSPENDING
from controller.ray.api.pod_state import Disruption, is_announced
from controller.ray.api.raycluster import ClusterSpec, RayCluster, WorkerGroup
from controller.ray.children import Child, ObservedChild
from controller.ray.cluster.children import Note, ObservedChildren
from controller.ray.cluster.rollout import RayView, RevisionHistory, Rollout
from controller.ray.dashboard import Head
from controller.ray.head import Identity
from controller.ray.pods import PodBuilder
from controller.ray.settings import RaySettings
from controller.runtime.definitions import InstalledDefinition
from controller.runtime.kind import CreateError, FailedCreate, LogText
from controller.runtime.plan import Delete, LogTail, Plan, Write
from workqueue import Backoff

# The observed removal of a deleted cluster's state from Redis, as a value.


class Cleanup(Struct, frozen=True):
    """The observed cleanup of a deleted cluster.

    Attributes:
        has_name_conflict: whether an object of that name belongs to another owner.
        refusal: reason why the last create failed.
        failed_create: what the events of the Job say about a pod that was refused.
        heads_listed: whether a live list has shown that the cache misses no head.
    """

    job: Job | None = None
    pods: tuple[Pod, ...] = ()
    has_name_conflict: bool = False
    refusal: CreateError | None = None
    failed_create: FailedCreate | None = None
    heads_listed: bool = False

    @property
    def lacks_pod(self) -> bool:
        """Whether the Job should have had a pod and has had none; it gets one only."""
        job = self.job
        if job is None or job.metadata.terminating:
            return False
        return not (job.spec.suspend or self.pods or job.status.failed)

    @property
    def end(self) -> JobEnd | None:
        """How the Job has ended, None while it has not."""
        return job_end(self.job, self.pods) if self.job is not None else None


W = TypeVar("W", bound=Write)


def soonest(*waits: float | None) -> float | None:
    """Return the shortest of these waits, None if nothing is waited for."""
    return min((each for each in waits if each is not None), default=None)


class StoredStatus(Struct, frozen=True):
    """The status of a cluster as far as it is well-formed.

    Attributes:
        fields: all fields, the conditions among them.
        conditions: the conditions that have a type.
        by_type: the first condition of each type.
    """

    fields: Mapping[str, Any]
    conditions: Sequence[Mapping[str, Any]]
    by_type: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, cluster: RayCluster) -> StoredStatus:
        """Read the status of a cluster."""
        fields = status_of(cluster)
        conditions: list[dict[str, Any]] = fields.get("conditions") or []
        return cls(fields, conditions, {each["type"]: each for each in reversed(conditions)})


stored_status: Final = IdentityMemo(StoredStatus.of)
"""The status of an object, read once."""


class ObservedBudgets(Struct, frozen=True):
    """The observed disruption budgets of a cluster.

    Attributes:
        possible: those that it has while it is in use, and what is there of each.
        surplus: its own that it should not have.
        notes: sentences about those that cannot be made.
    """

    possible: tuple[tuple[Child, ObservedChild], ...] = ()
    surplus: tuple[PodDisruptionBudget, ...] = ()
    notes: tuple[Note, ...] = ()


class DesiredCluster(Struct, frozen=True):
    """The part of a plan that follows from a valid RayCluster alone; computed once per object.

    Attributes:
        workers: worker pods of all groups.
        reported: fields of the status: numbers of workers, sums of resources.
        unsupported_fields: what is accepted and has no effect.
        warnings: sentences about questionable settings that do not stop the cluster.
    """

    spec: ClusterSpec
    identity: Identity
    builder: PodBuilder
    workers: int
    reported: Mapping[str, Any]
    unsupported_fields: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


# Remembers the nodes that this process has told Ray to drain; a new process tells it again.


class DrainMemory(Struct, frozen=True):
    """The nodes that a head was commanded to drain.

    Attributes:
        head: the head that has the commands; a new one gets them again.
        commands: id of the command by id of the node.
    """

    head: Head | None = None
    commands: Mapping[str, str] = field(default_factory=dict[str, str])


# The pods that one plan of a cluster has seen, deleted or missed, kept for the next plan.

LOSS_BACKOFF: Final = Backoff(base=20.0, cap=300.0)
"""Delays of replacements, by the rounds in which pods were lost."""


class Losses(Struct, frozen=True):
    """The losses of one scope since its pods were last healthy.

    Members are pods, or replicas of several hosts, by name.

    Attributes:
        rounds: how often pods were lost, the last time included.
        began: time at which the last round began.
        lost: the members lost in that round.
        before: the members that existed when it began; their losses belong to it.
        template: hash of the template of the scope's pods.
        last: the last lost pod, in its last observed state.
    """

    rounds: int
    began: datetime
    lost: frozenset[str]
    before: frozenset[str]
    template: str
    last: Pod

    @property
    def repeated(self) -> bool:
        """True if replacements were lost too."""
        return self.rounds > 1

    @property
    def wait(self) -> float:
        """Seconds from the last round until the lost pods are replaced."""
        return LOSS_BACKOFF.delay(self.rounds - 2) if self.repeated else 0.0

    @property
    def next_try(self) -> datetime:
        """The time at which the lost pods are replaced."""
        return self.began + timedelta(seconds=self.wait)


class PodHistory(Struct, frozen=True):
    """The memory of a plan about the pods of a cluster, for the next plan. A restart forgets it.

    Attributes:
        alive: pods that had not ended and were not terminating, by uid.
        known: uids of all pods.
        condemned: uids of the pods that plans have deleted.
        losses: losses by scope.
        waiting: scopes in which lost pods are not replaced yet.
        drains: the nodes that Ray was commanded to drain.
        has_failed: whether the condition `Ready` has named a cause that was reported as an event.
        reported_causes: their generation, reason and component, since the cluster was last ready or
            edited.
    """

    alive: Mapping[str, Pod] = field(default_factory=dict[str, "Pod"])
    known: frozenset[str] = frozenset()
    condemned: frozenset[str] = frozenset()
    losses: Mapping[str, Losses] = field(default_factory=dict[str, Losses])
    waiting: frozenset[str] = frozenset()
    drains: DrainMemory = field(default_factory=DrainMemory)
    has_failed: bool = False
    reported_causes: frozenset[tuple[int, str, str]] = frozenset()

    def after(self, plan: Plan) -> PodHistory:
        """Return the history after a plan was carried out."""
        deleted = (w.uid for stage in plan.stages for w in stage if isinstance(w, Delete))
        return replace(self, condemned=self.condemned.union(deleted))

    def has_ended(self, scope: str, name: str) -> bool:
        """Return whether the last lost pod of a scope has this name, and had ended for good."""
        losses = self.losses.get(scope)
        if losses is None or losses.last.metadata.name != name:
            return False
        return losses.last.status.phase in {"Failed", "Succeeded"}

    def seconds_until_next_try(self, now: datetime) -> float | None:
        """Return the seconds until lost pods of a scope are replaced, None if none wait."""
        tries = (self.losses[scope].next_try for scope in self.waiting)
        return min(((each - now).total_seconds() for each in tries), default=None)


_BEFORE: Final = datetime.min.replace(tzinfo=UTC)

NO_HISTORY: Final = PodHistory()
"""The history before the first plan."""


# The workers of a group in units that are created and deleted as one, read from labels of pods.


class WorkerUnit(Struct, frozen=True):
    """A worker pod, or a replica of several hosts.

    Attributes:
        name: name of the replica; empty for a pod without the label, which is a unit of its own.
        pods: its pods by host index, including terminating ones.
    """

    name: str
    pods: tuple[Pod, ...]

    @property
    def live(self) -> list[Pod]:
        """The pods that are not terminating."""
        return [pod for pod in self.pods if not pod.metadata.terminating]

    @property
    def host_indices(self) -> list[str]:
        """The host indices that its pods carry, empty for a pod without one."""
        return [_label(pod, labels.HOST_INDEX) for pod in self.pods]

    @property
    def index(self) -> str:
        """The replica index that its pods carry."""
        return _label(self.pods[0], labels.REPLICA_INDEX)


class WorkerUnits(Struct, frozen=True):
    """The units of a group.

    Attributes:
        units: its units, including terminating ones.
        is_multi_host: whether they are replicas of several hosts, or must be treated so.
        begun: replicas that this process is creating, with the number of hosts created so far.
    """

    group: WorkerGroup
    units: tuple[WorkerUnit, ...]
    is_multi_host: bool = False
    begun: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def hosts(self) -> int:
        """Pods of a whole unit."""
        return self.group.hosts if self.is_multi_host else 1

    @property
    def desired(self) -> int:
        """The number of units that the specification asks for."""
        return self.group.desired_replicas if self.is_multi_host else self.group.desired_pods

    def is_whole(self, unit: WorkerUnit) -> bool:
        """Return whether a unit has the pods of all of its hosts, and none of a larger replica."""
        if not self.is_multi_host:
            return True
        indices = unit.host_indices
        too_high = any(each.isdecimal() and int(each) >= self.hosts for each in indices)
        return len(indices) == self.hosts and not too_high


def read_units(
    group: WorkerGroup,
    pods: Iterable[Pod],
    begun: Mapping[str, int] | None = None,
    *,
    is_indexed: bool = True,
) -> WorkerUnits:
    """Group the pods of a group by the names of their replicas, if it has any.

    A group with pods from an operator that sets no replica labels has none: which of them compute
    together is unknown, so they stay and are replaced one by one until the group has been empty
    once. `is_indexed` is False where new pods get no such labels either.
    """
    pods = tuple(pods)
    is_named = any(_label(pod, labels.REPLICA_NAME) for pod in pods)
    is_new = group.hosts > 1 and all(_label(pod, labels.REPLICA_INDEX) for pod in pods)
    if not (is_indexed and (is_named or is_new)):
        return WorkerUnits(group, tuple(WorkerUnit("", (pod,)) for pod in pods))
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        found[_label(pod, labels.REPLICA_NAME)].append(pod)
    singles = found.pop("", [])
    replicas = [
        WorkerUnit(name, tuple(sorted(found[name], key=_host_order))) for name in sorted(found)
    ]
    units = (*replicas, *(WorkerUnit("", (pod,)) for pod in singles))
    return WorkerUnits(group, units, True, begun or {})


def _host_order(pod: Pod) -> tuple[int, str, str]:
    index = _label(pod, labels.HOST_INDEX)
    return len(index), index, pod.metadata.name


def _label(pod: Pod, key: str) -> str:
    return (pod.metadata.labels or {}).get(key, "")


class ObservedPods(Struct, frozen=True, kw_only=True):
    """A RayCluster, valid or not, and its pods in their present state.

    Attributes:
        stored: its present status.
        now: the time of the plan; not known while observing.
        heads: head pods that belong to it, including terminating ones.
        foreign_heads: sentences about head pods with its label that belong to another owner.
        workers: its worker pods by group, including groups removed from the specification.
        all_workers: the same of all groups.
        all_pods: heads and workers.
        unreadable: sentences about existing pods that cannot be decoded and therefore not be
            counted.
        pods_listed: whether a live list has shown that there are no pods besides these.
        pending_scopes: scopes with a write of unknown outcome.
        lost_head: name of a head that is in the status but not in the cache.
        cleanup: the observed removal of a deleted cluster's state from Redis.
        history: the history of the pods: until the last plan while observing, until now while
            planning. `NO_HISTORY` if there was no plan yet.
    """

    cluster: RayCluster
    stored: StoredStatus
    now: datetime = _BEFORE
    heads: tuple[Pod, ...] = ()
    foreign_heads: tuple[str, ...] = ()
    workers: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict[str, "tuple[Pod, ...]"])
    all_workers: tuple[Pod, ...] = ()
    all_pods: tuple[Pod, ...] = ()
    unreadable: tuple[str, ...] = ()
    pods_listed: bool = False
    pending_scopes: frozenset[str] = frozenset()
    lost_head: str | None = None
    cleanup: Cleanup = field(default_factory=Cleanup)
    settings: RaySettings = field(default_factory=RaySettings)
    history: PodHistory = NO_HISTORY

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return the present condition of this type, empty if there is none."""
        return self.stored.by_type.get(kind, {})

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of this type is True."""
        return self.stored.by_type.get(kind, {}).get("status") == "True"

    def since(self, kind: str) -> datetime | None:
        """Return since when the condition of this type has had its status, None if unknown."""
        return time_of(self.condition(kind).get("lastTransitionTime"))

    @property
    def recorded_generation(self) -> int | None:
        """The generation that the status reports, None before the first."""
        recorded = self.stored.fields.get("observedGeneration")
        return recorded if isinstance(recorded, int) else None

    @property
    def counted_generation(self) -> int | None:
        """The generation whose pods the status has counted.

        A refused specification is observed but not counted; then all conditions but `Ready` are
        older.
        """
        return self.condition(HEAD_POD_READY).get("observedGeneration")

    @property
    def is_recorded(self) -> bool:
        """Whether the status reports the present generation."""
        return self.recorded_generation == self.cluster.metadata.generation

    def settled(self, writes: Iterable[W]) -> Iterator[W]:
        """Yield the writes in whose scopes no write has an unknown outcome."""
        return (each for each in writes if each.target.scope not in self.pending_scopes)

    def seconds_until(self, moments: Iterable[datetime | None]) -> float | None:
        """Return the seconds until the first of these times that is yet to come, if any is."""
        waits = ((each - self.now).total_seconds() for each in moments if each is not None)
        return min((seconds for seconds in waits if seconds > 0), default=None)

    @property
    def live_pods(self) -> list[Pod]:
        """Heads and workers that are not terminating."""
        return [pod for pod in self.all_pods if not pod.metadata.terminating]

    @property
    def may_have_pods(self) -> bool:
        """True if pods exist or may exist: unreadable ones, or writes of unknown outcome."""
        return bool(self.all_pods or self.unreadable or self.pending_scopes)

    @property
    def repeated_losses(self) -> Mapping[str, Losses]:
        """The scopes whose replacements of lost pods were lost too, with their losses."""
        return {scope: each for scope, each in self.history.losses.items() if each.repeated}


class InvalidCluster(ObservedPods, frozen=True, kw_only=True):
    """A RayCluster whose specification has a problem."""

    problem: Problem


class ClusterObservation(ObservedPods, frozen=True, kw_only=True):
    """A valid RayCluster and its children in their present state.

    Attributes:
        units: its workers by group, without groups removed from the specification.
        pods_revision: newest revision of pods observed; names of new pods depend on it.
        taken_pod_names: names that another owner's pods were found to have.
        revisions: earlier templates of its pods; None if they are not kept.
        definition: the fields that the installed definition of RayClusters lacks.
        created_pods: pods that this process created since the last plan; some may be gone already.
        ray: Ray's reports, if an upgrade needs them.
        disruptions: the workers that others take away, by uid.
        rollout: the state of a rolling update while planning; None if there is none.
        clock_steady_since: time since which the clock has not jumped; None if unknown.
        crash_log: the log that says why a pod crashes; None if none has to be read.
        crash_text: its last lines; None before they were read.
    """

    desired: DesiredCluster
    children: ObservedChildren = field(default_factory=ObservedChildren)
    units: Mapping[str, WorkerUnits]
    pods_revision: str = ""
    taken_pod_names: frozenset[str] = frozenset()
    revisions: RevisionHistory | None = None
    unknown_fields: str = ""
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)
    consistency_warnings: tuple[str, ...] = ()
    created_pods: tuple[Pod, ...] = ()
    ray: RayView = field(default_factory=RayView)
    disruptions: Mapping[str, Disruption] = field(default_factory=dict[str, "Disruption"])
    rollout: Rollout | None = None
    clock_steady_since: datetime | None = None
    crash_log: LogTail | None = None
    crash_text: LogText | None = None
    budgets: ObservedBudgets = field(default_factory=ObservedBudgets)

    @property
    def asked_rollout(self) -> Rollout | None:
        """The rollout that the user asks for; None for drains that another strategy has left."""
        if self.rollout is None or self.desired.spec.upgrade_strategy.rolling is None:
            return None
        return self.rollout

    @property
    def is_suspended(self) -> bool:
        """Whether the cluster is suspended, or about to be, for whatever reason."""
        return (
            bool(self.desired.spec.suspend) or self.is_true(SUSPENDING) or self.is_true(SUSPENDED)
        )

    @property
    def is_ending(self) -> bool:
        """Whether the cluster is deleted or suspended."""
        return self.cluster.metadata.terminating or self.is_suspended

    def wanted_units(self, units: WorkerUnits) -> int:
        """Return the desired number of units of a group.

        What is taken away is replaced at once, as far as the group may have more than desired.
        """
        name, desired = units.group.group_name, units.desired
        upgrade = self.rollout.groups.get(name) if self.rollout is not None else None
        wanted = desired if upgrade is None else upgrade.wanted
        surge = self.desired.spec.surge_of(desired) if desired else 0
        if not surge:
            return max(wanted, desired)
        disrupted = sum(any(map(self.is_disrupted, each.pods)) for each in units.units)
        return max(wanted, desired + min(surge, disrupted))

    def is_disrupted(self, pod: Pod) -> bool:
        """Return whether others take the pod away, or had announced it when its drain began."""
        return pod.metadata.uid in self.disruptions or is_announced(pod)

    @property
    def awaits_revision(self) -> bool:
        """True if pods are replaced only after their present templates have been stored."""
        return self.revisions is not None and self.revisions.is_awaited


AnyCluster: TypeAlias = ClusterObservation | InvalidCluster
