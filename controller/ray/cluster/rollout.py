"""An upgrade as values: pods to delete, stored templates, the rolling update, Ray's view of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct, field

from controller.apimachinery.conditions import time_of
from controller.kube.objects import ControllerRevision, Pod
from controller.ray.api.pod_state import is_announced, is_ready
from controller.ray.api.raycluster import ClusterSpec, RayCluster
from controller.ray.api.upgrade_strategy import RollingUpdate
from controller.ray.cluster.children import Note
from controller.ray.dashboard import Head
from controller.ray.dashboard.client import RayNode, RayNodes
from controller.ray.dashboard.commands import CommandOutcome, Dashboards
from controller.ray.dashboard.probes import ActivityProbe, HealthProbe, NodesProbe, ProbeObservation
from controller.ray.dashboard.responses import RayVersion
from controller.ray.head import find_head
from controller.ray.rolling import Moves, UnitGroup
from controller.runtime.kind import CacheReader

# A worker to delete, and the cause of its deletion.

NAMED = "it is named in workersToDelete"
SURPLUS = "the group has more pods than it should"


class DeletionCause(Enum):
    """The cause of a deletion."""

    POD = "the pod's own state"
    NAMED = "the autoscaler, or another author of workersToDelete"
    SURPLUS = "a number of replicas in the specification"
    RESIZED = "the number of hosts in the specification"
    UPGRADED = "the template in the specification, by the upgrade strategy"
    GROUP_REMOVED = "a group that is not in the specification"


class PodToDelete(Struct, frozen=True):
    """A pod to delete, with a clause about the cause for its event."""

    pod: Pod
    reason: str
    cause: DeletionCause = DeletionCause.POD


# The stored templates of a cluster, as a value: `upgrade.py` makes it.

NOT_KEPT: Final = (
    "the present pod templates are not stored, so that `manta rollout undo` will not find them"
)


class RevisionHistory(Struct, frozen=True):
    """The revisions of a cluster.

    Attributes:
        name: name of the revision of the present templates, whether it exists or not.
        revisions: existing revisions that are not being deleted.
        refusal: reason why the present templates cannot be stored; empty if they can.
        error: the server's error when they were last to be stored; empty if it stored them.
        is_pending: whether the outcome of storing them is unknown.
    """

    name: str
    revisions: tuple[ControllerRevision, ...] = ()
    refusal: str = ""
    error: str = ""
    is_pending: bool = False

    @property
    def present(self) -> ControllerRevision | None:
        """The revision of the present templates, None if it does not exist."""
        return next((each for each in self.revisions if each.metadata.name == self.name), None)

    @property
    def is_missing(self) -> bool:
        """True if the present templates are to be stored now."""
        return self.present is None and not self.refusal and not self.is_pending

    @property
    def is_awaited(self) -> bool:
        """True if pods are replaced only after they are stored; False after that has failed."""
        return self.is_missing and not self.error

    @property
    def newest(self) -> int:
        """The highest number, 0 without revisions."""
        return max((each.revision for each in self.revisions), default=0)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes for the user."""
        why = self.refusal or self.error
        return (not_kept(why),) if why else ()


def not_kept(why: str) -> Note:
    """Return a note that the present templates are not stored."""
    return Note("FailedToCreateControllerRevision", f"{NOT_KEPT}: {why}")


# The state of a rolling update at one moment, as a value: `rolling.py` makes it.

OUTDATED: Final = "it was created from an older template and is being replaced"
DRAINED: Final = "it was draining"


class Verdict(Enum):
    """The state of a rolling update: the reasons of the condition `Upgrading`."""

    COMPLETE = "Complete"
    NOT_EXPLAINED = "NotExplained"
    HEAD_NEEDS_FAULT_TOLERANCE = "HeadNeedsFaultTolerance"
    PAUSED = "Paused"
    INCOMPATIBLE_VERSIONS = "IncompatibleVersions"
    RAY_DOES_NOT_ANSWER = "RayDoesNotAnswer"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    DRAINING = "Draining"
    ROLLING = "Rolling"


AT_REST: Final = frozenset({
    Verdict.COMPLETE,
    Verdict.NOT_EXPLAINED,
    Verdict.HEAD_NEEDS_FAULT_TOLERANCE,
})  # fmt: skip
"""States in which nothing is being replaced or waited for."""

HELD: Final = AT_REST | {Verdict.PAUSED, Verdict.RAY_DOES_NOT_ANSWER}
"""States in which only draining pods are touched."""

STUCK: Final = frozenset({
    Verdict.INCOMPATIBLE_VERSIONS,
    Verdict.RAY_DOES_NOT_ANSWER,
    Verdict.PROGRESS_DEADLINE_EXCEEDED,
    Verdict.HEAD_NEEDS_FAULT_TOLERANCE,
})  # fmt: skip
"""States in which the user may have to act."""


class GroupUpgrade(Struct, frozen=True):
    """The upgrade of one group.

    Attributes:
        hosts: pods of a complete unit.
        surplus: names of units for which the specification no longer has room.
    """

    group: UnitGroup
    hosts: int
    pods: Mapping[str, tuple[Pod, ...]]
    moves: Moves = field(default_factory=Moves)
    surplus: tuple[str, ...] = ()

    @property
    def wanted(self) -> int:
        """The number of units after the creates, before any deletion."""
        return len(self.group.units) + self.moves.create

    @property
    def leaving(self) -> tuple[str, ...]:
        """Names of the units that are draining."""
        return tuple(unit.name for unit in self.group.units if unit.is_leaving)

    @property
    def is_replaced(self) -> bool:
        """True if nothing is left to replace but what is drained because it is taken away."""
        return self.group.is_done or not any(
            unit.is_old or (unit.is_leaving and not any(map(is_announced, self.pods[unit.name])))
            for unit in self.group.units
        )

    def pods_of(self, names: Iterable[str]) -> Iterator[Pod]:
        """Yield the pods of these units that are not being deleted."""
        for name in names:
            yield from (p for p in self.pods[name] if not p.metadata.terminating)

    def to_delete(self, *, may_shrink: bool) -> Iterator[PodToDelete]:
        """Yield the pods to delete, apart from named or broken ones."""
        current = {unit.name for unit in self.group.units if unit.up_to_date}
        for name in self.moves.delete:
            for pod in self.pods_of((name,)):
                reason = DRAINED if name in current else OUTDATED
                yield PodToDelete(pod, reason, DeletionCause.UPGRADED)
        if may_shrink:
            for pod in self.pods_of(self.surplus):
                yield PodToDelete(pod, SURPLUS, DeletionCause.SURPLUS)


class Rollout(Struct, frozen=True):
    """A rolling update.

    Attributes:
        cause: clauses about what it waits for or what to do; may be empty.
        groups: upgrades of groups by name, without suspended groups; empty if there is nothing to
            do.
        head_is_outdated: whether the head was made from another template.
        replaces_head: whether the head is deleted now.
        seconds_left: seconds until time alone changes the decision; None if it does not.
        begun: names of the groups whose turn has begun and not ended.
    """

    settings: RollingUpdate
    verdict: Verdict
    cause: str = ""
    groups: Mapping[str, GroupUpgrade] = field(default_factory=dict[str, GroupUpgrade])
    head_is_outdated: bool = False
    replaces_head: bool = False
    seconds_left: float | None = None
    begun: frozenset[str] = frozenset()

    @property
    def is_leaving(self) -> bool:
        """True if any pod is draining."""
        return any(each.leaving for each in self.groups.values())

    @property
    def takes_away(self) -> bool:
        """True if the next moves drain or delete pods."""
        return any(each.moves.drain or each.moves.delete for each in self.groups.values())

    @property
    def leaving_pods(self) -> frozenset[str]:
        """Uids of the pods that are draining."""
        return frozenset(
            pod.metadata.uid for each in self.groups.values() for pod in each.pods_of(each.leaving)
        )

    @property
    def spare_pods(self) -> frozenset[str]:
        """Uids of new pods in groups that already have as many available pods as they need."""
        return frozenset(
            pod.metadata.uid
            for each in self.groups.values()
            if each.group.has_enough
            for pod in each.pods_of(u.name for u in each.group.units if u.up_to_date and u.staying)
        )

    def workers_to_delete(self, group: str, *, may_shrink: bool) -> Iterator[PodToDelete]:
        """Yield the pods of the group to delete, apart from named or broken ones."""
        if group in self.groups:
            yield from self.groups[group].to_delete(may_shrink=may_shrink)


# Ray's view of a cluster whose pods are being replaced.


class RayView(Struct, frozen=True):
    """The last answers of the present head's dashboard.

    Attributes:
        drains: outcomes of commands to drain nodes, by id.
        assumed: whether no dashboard is asked: ready pods count as nodes, and as drained once they
            are told to drain.
    """

    head: Head | None = None
    head_pod: Pod | None = None
    nodes: ProbeObservation | None = None
    health: ProbeObservation | None = None
    activity: ProbeObservation | None = None
    drains: Mapping[str, CommandOutcome] = field(default_factory=dict[str, "CommandOutcome"])
    assumed: bool = False

    @property
    def answers(self) -> bool:
        """True if the nodes are known."""
        if self.assumed:
            return True
        seen = self.nodes
        return seen is not None and isinstance(seen.value, RayNodes) and seen.failing_since is None

    @property
    def knows_enough(self) -> bool:
        """True if the nodes and the version are known."""
        return self.assumed or (self.answers and bool(self.version))

    @property
    def silence(self) -> str:
        """Text about since when Ray does not answer and the last error; empty if it answers."""
        failed = [each for each in (self.nodes, self.health) if each and each.failing_since]
        return failed[0].error if failed and not self.assumed else ""

    @property
    def version(self) -> str:
        """Ray's own version, empty if it is not known."""
        value = self.health.value if self.health is not None else None
        return value.ray_version if isinstance(value, RayVersion) else ""

    def node_of(self, pod: Pod) -> RayNode | None:
        """Return the newest node on a pod, dead or alive; None if there is none or unknown."""
        value = self.nodes.value if self.nodes is not None else None
        created = time_of(pod.metadata.creation_timestamp)
        if not isinstance(value, RayNodes) or created is None or not pod.status.pod_ip:
            return None
        return value.at(pod.status.pod_ip, created)

    def is_alive(self, pod: Pod) -> bool:
        """Return whether Ray lists a node on the pod as alive."""
        if self.assumed:
            return is_ready(pod)
        node = self.node_of(pod) if self.answers else None
        return node is not None and node.alive

    def is_dead(self, pod: Pod) -> bool:
        """Return whether Ray lists the node on the pod as dead."""
        if self.assumed:
            return True
        node = self.node_of(pod) if self.answers else None
        return node is not None and not node.alive

    def never_joined(self, pod: Pod) -> bool:
        """Return whether a head older than the pod has never listed a node on it."""
        if self.assumed or not self.answers or self.head is None or self.head_pod is None:
            return False
        born, head_born = pod.metadata.creation_timestamp, self.head_pod.metadata.creation_timestamp
        is_older = self.head.restarts == 0 and (head_born or "") <= (born or "")
        return is_older and self.node_of(pod) is None


ASSUMED = RayView(assumed=True)


def observe_ray(
    cluster: RayCluster,
    spec: ClusterSpec,
    reads: CacheReader,
    dashboards: Dashboards,
    *,
    domain: str,
    drains: Iterable[str] = (),
) -> RayView:
    """Observe Ray; `drains` are the ids of the commands whose outcomes are needed."""
    found = find_head(cluster, spec, reads, domain=domain)
    if found is None or found.terminating:
        return RayView()
    head = found.dashboard
    outcomes = {each: dashboards.outcome(head, each) for each in drains}
    return RayView(
        head,
        found.pod,
        dashboards.observation(head, NodesProbe()),
        dashboards.observation(head, HealthProbe()),
        dashboards.observation(head, ActivityProbe()),
        {name: outcome for name, outcome in outcomes.items() if outcome is not None},
    )
