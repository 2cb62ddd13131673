"""A life of some RayClusters, RayJobs, RayServices, RayCronJobs and Workspaces as plain data.

It says what is done to them, and what goes wrong.

It can be printed, stored as JSON, replayed and shrunk. Numbers that pick something (a cluster, a
group, a pod) are taken modulo how many of these there are when the step is due.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Seconds: TypeAlias = float


class Group(msgspec.Struct, frozen=True):
    """A worker group: its name is that of its number."""

    number: int
    replicas: int = 1
    least: int = 0
    most: int = 6
    hosts: int = 1


class Rolling(msgspec.Struct, frozen=True):
    """Settings of rolling updates; the first two are numbers of replicas, or percentages."""

    surge: int | str = 1
    unavailable: int | str = 0
    parallel: int = 1
    drain: int = 30
    deadline: int = 600
    paused: bool = False


class Cluster(msgspec.Struct, frozen=True):
    """A RayCluster as it is created.

    Attributes:
        idle: seconds without use after which it is suspended, 0 for never.
        budgets: whether evictions must leave what runs.
        graceful: whether workers that are taken away have time, and are replaced before they go.
    """

    groups: tuple[Group, ...] = ()
    autoscaler: Literal["", "v1", "v2"] = ""
    recreate: bool = False
    storage: Literal["", "redis", "rocksdb"] = ""
    rolling: Rolling | None = None
    idle: int = 0
    budgets: bool = False
    graceful: bool = False


class Fate(msgspec.Struct, frozen=True):
    """What becomes of a submission in Ray.

    Attributes:
        result: that of the job, or why it has none; `stuck` waits for resources for ever, and no
            stop ends it, `endless` runs until it is stopped.
    """

    result: Literal["SUCCEEDED", "FAILED", "endless", "stuck"] = "SUCCEEDED"
    pending: Seconds = 1.0
    running: Seconds = 5.0

    @property
    def ends(self) -> bool:
        return self.result in {"SUCCEEDED", "FAILED"}


class Job(msgspec.Struct, frozen=True):
    """A RayJob as it is created.

    Attributes:
        shutdown: whether its cluster goes when it has ended.
        deadline: `activeDeadlineSeconds`, 0 for none. A job that may never end has one.
        submitter_fails: whether its submitters end with an error before they submit.
    """

    mode: Literal["HTTPMode", "K8sJobMode", "SidecarMode"] = "HTTPMode"
    backoff: int = 0
    fates: tuple[Fate, ...] = (Fate(),)
    workers: int = 0
    shutdown: bool = True
    ttl: int = 0
    deadline: int = 0
    pre_running: int = 0
    submitter_fails: bool = False
    disruptions: int = 0

    def fate(self, submission: int) -> Fate:
        """That of the so-manieth submission, from 0."""
        return self.fates[min(submission, len(self.fates) - 1)]


class RayService(msgspec.Struct, frozen=True):
    """A RayService as it is created, or as it is edited."""

    config: int = 0
    image: int = 0
    workers: int = 1
    upgrade: Literal["NewCluster", "None", "NewClusterWithIncrementalUpgrade"] = "NewCluster"
    delay: int = 5


class CronJob(msgspec.Struct, frozen=True):
    """A RayCronJob as it is created, or as it is edited.

    Attributes:
        fates: of its RayJobs, by the order of their creation; the last is that of all further ones.
    """

    every: int = 1
    policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    deadline: int = 0
    successful: int | None = None
    failed: int | None = None
    fates: tuple[Fate, ...] = (Fate(),)


class ClaimFate(msgspec.Struct, frozen=True):
    """What becomes of a claim for a node.

    Attributes:
        outcome: there is no such machine in a `stock-out`, and the provisioner deletes what it has
            `given up`; a machine is `lost` with its claim after its node was ready.
    """

    outcome: Literal["ready", "without plugin", "stock-out", "given up", "lost"] = "ready"
    after: Seconds = 5.0


class Workspace(msgspec.Struct, frozen=True):
    """A Workspace as it is created.

    Attributes:
        fates: of its claims, by the order of their creation; further ones become ready.
    """

    count: int = 1
    fates: tuple[ClaimFate, ...] = ()


class Action(msgspec.Struct, frozen=True, tag=True):
    """What can be done in one step."""


class Create(Action, frozen=True):
    cluster: int
    body: Cluster


class Delete(Action, frozen=True):
    cluster: int
    propagation: Literal["Background", "Foreground"] = "Background"


class Scale(Action, frozen=True):
    cluster: int
    group: int
    replicas: int


class Bound(Action, frozen=True):
    cluster: int
    group: int
    least: int
    most: int


class NameWorkers(Action, frozen=True):
    """Put pods into workersToDelete by hand, with fewer replicas or as many as before."""

    cluster: int
    group: int
    picks: tuple[int, ...]
    fewer: bool


class AddGroup(Action, frozen=True):
    """Append a group, unless there is one of this number."""

    cluster: int
    group: Group


class RemoveGroup(Action, frozen=True):
    cluster: int
    group: int


class ChangeTemplate(Action, frozen=True):
    """Give a group another image; group -1 is the head."""

    cluster: int
    group: int
    image: int


class ChangeHosts(Action, frozen=True):
    cluster: int
    group: int
    hosts: int


class ChangeStrategy(Action, frozen=True):
    cluster: int
    recreate: bool


class ChangeRolling(Action, frozen=True):
    """Edit the settings of rolling updates, or switch them on; None switches them off."""

    cluster: int
    rolling: Rolling | None


class EditPods(Action, frozen=True):
    """Give a group another edition of its pods; group -1 is the head, -2 all groups.

    Attributes:
        image: which one: Ray's own, another one of the same version, or one that names no version.
    """

    cluster: int
    group: int
    edition: int
    image: Literal["ray", "gpu", "own"] = "ray"


class Suspend(Action, frozen=True):
    """Set suspend of a cluster; None removes the field, which resumes nothing."""

    cluster: int
    suspend: bool | None


class Use(Action, frozen=True):
    """A driver connects to the head of a cluster that is ready, for some seconds.

    Attributes:
        before: connect so long before the timeout after the last use is over; None for now.
    """

    cluster: int
    lasts: Seconds
    before: Seconds | None = None


class Wake(Action, frozen=True):
    cluster: int


class Evict(Action, frozen=True):
    """Evict a pod of Ray, as a drain does."""

    pick: int


class TakeNode(Action, frozen=True):
    """A node is about to go, or goes.

    Nodes are cordoned; drained, which evicts the pods too; tainted as by Karpenter; or `vanish`,
    and the pods with them. `back` is a node that stays after all.
    """

    node: int
    how: Literal["cordon", "drain", "taint", "vanish", "back"]


class SuspendGroup(Action, frozen=True):
    """Set suspend of a group; not allowed, and so not done, under autoscaling."""

    cluster: int
    group: int
    suspend: bool


class ChangeStorage(Action, frozen=True):
    cluster: int
    storage: Literal["", "redis", "rocksdb"]


class Demand(Action, frozen=True):
    """From now on Ray's load needs so many workers of a group; the autoscaler sees to it."""

    cluster: int
    group: int
    workers: int


class CreateJob(Action, frozen=True):
    job: int
    body: Job


class DeleteJob(Action, frozen=True):
    job: int
    propagation: Literal["Background", "Foreground"] = "Background"


class SuspendJob(Action, frozen=True):
    """Set suspend of a job; not allowed, and so not done, without `shutdown`."""

    job: int
    suspend: bool


class DeleteJobCluster(Action, frozen=True):
    job: int


class LoseRayJobs(Action, frozen=True):
    """All Rays forget their jobs."""


class CreateRayService(Action, frozen=True):
    service: int
    body: RayService


class EditRayService(Action, frozen=True):
    """Replace the specification of a RayService; whether it is suspended stays as it is."""

    service: int
    body: RayService


class SuspendRayService(Action, frozen=True):
    service: int
    suspend: bool


class DeleteRayService(Action, frozen=True):
    service: int
    propagation: Literal["Background", "Foreground"] = "Background"


class DeleteRayServiceCluster(Action, frozen=True):
    service: int
    role: Literal["active", "pending"]


class LoseServe(Action, frozen=True):
    """All Serves lose their applications."""


class CreateCronJob(Action, frozen=True):
    cron: int
    body: CronJob


class EditCronJob(Action, frozen=True):
    """Replace the specification of a RayCronJob; whether it is suspended stays as it is."""

    cron: int
    body: CronJob


class SuspendCronJob(Action, frozen=True):
    cron: int
    suspend: bool


class DeleteCronJob(Action, frozen=True):
    cron: int
    propagation: Literal["Background", "Foreground"] = "Background"


class DeleteCronRun(Action, frozen=True):
    pick: int


class RayFault(Action, frozen=True):
    """All dashboards misbehave for some seconds, or all applications of Serve do."""

    kind: Literal[
        "refuses", "silent", "loses answers", "error", "error json", "html", "truncated",
        "forbidden", "late", "unhealthy", "deploy failed",
    ]  # fmt: skip
    lasts: Seconds = 10.0


class EndPod(Action, frozen=True):
    """Something happens to a pod of Ray, or to a submitter.

    `replace` kills it and makes another one of its name; `hide` takes the label off by which the
    operator finds it.
    """

    pick: int
    how: Literal["fail", "succeed", "crash", "delete", "kill", "replace", "hide"]


class DeleteService(Action, frozen=True):
    cluster: int


class LoseNode(Action, frozen=True):
    """Cut a node off; its pods are not ready any more, and evicted after a while."""

    node: int


class RestoreNode(Action, frozen=True):
    node: int


class Restart(Action, frozen=True):
    """End the operator and start the next one `pause` seconds later.

    `before` and `after` kill it at its next write, before or after the server has carried it out.
    Of two it is the one that leads.

    Attributes:
        marks: whether what the next one finds has the marks and conditions that are Manta's own.
            Without them the objects are as KubeRay's operator, or an early release, leaves them.
    """

    how: Literal["kill", "stop", "before", "after"]
    pause: Seconds = 0.0
    marks: bool = True


class Compact(Action, frozen=True):
    """The server forgets its history: who watches from an older revision is answered 410."""


class Fault(Action, frozen=True):
    """Something between operator and server goes wrong for a while.

    Attributes:
        kind: which fault; numbers are statuses of refusals.
        every: it strikes each so-manieth occurrence.
        seconds: how late something is, for the kinds that make something late.
    """

    kind: Literal[
        "lag", "cut", "reset", "gone", "lost request", "lost answer", "late", "slow", "straggling",
        "rewound", "refused", "409", "already exists", "429", "500", "503", "504", "unreadable",
    ]  # fmt: skip
    resource: str = ""
    every: int = 1
    seconds: Seconds = 1.0
    lasts: Seconds = 5.0


class OneSided(Action, frozen=True):
    """A fault between the server and one of two operators with one lease."""

    fault: Fault
    of: Literal["leader", "standby"] = "leader"


class DeleteLease(Action, frozen=True):
    """Somebody deletes the lease of the operators."""


class Webhook(Action, frozen=True):
    """An admission webhook spoils these requests of the operator, in other words each time.

    Attributes:
        how: it refuses them, it cannot be called, or it does not answer until its time is up.
    """

    how: Literal["refuses", "fails", "hangs"]
    resource: str = "pods"
    verb: Literal["", "create", "patch", "delete"] = "create"
    lasts: Seconds = 10.0


class Rival(Action, frozen=True):
    """Another controller wants something else and undoes what the operator repairs.

    Attributes:
        what: labels or selectors of head services, finalizers of ours, or what is reported in
            the status of RayClusters.
    """

    what: Literal["labels", "service", "finalizers", "status"]
    pause: Seconds = 0.0
    lasts: Seconds = 10.0


class Prune(Action, frozen=True):
    """Somebody installs a definition of RayClusters that lacks a field.

    After a while the definition is put back, and the user what it has dropped of the
    specifications.
    """

    field: Literal[
        "spec.workerGroupSpecs",
        "spec.workerGroupSpecs.numOfHosts",
        "status.conditions",
        "status.desiredCPU",
        "status.desiredWorkerReplicas",
        "status.observedGeneration",
    ]
    lasts: Seconds = 10.0


class RestoreDatabase(Action, frozen=True):
    """Somebody makes a backup of etcd, and after a while puts it back; only once in a life.

    Attributes:
        bumped: whether revisions go on from where they were, as etcd's manual advises. Else they
            go back behind what all watches have seen, and do not come near it again.
    """

    lasts: Seconds = 10.0
    bumped: bool = False


class ClockJump(Action, frozen=True):
    """The time of day jumps where the operator runs; what it measures with goes on as before."""

    seconds: Seconds


class CreateWorkspace(Action, frozen=True):
    workspace: int
    body: Workspace


class DeleteWorkspace(Action, frozen=True):
    workspace: int


class LoseClaim(Action, frozen=True):
    claim: int


WorkspaceAction: TypeAlias = CreateWorkspace | DeleteWorkspace | LoseClaim
CronAction: TypeAlias = CreateCronJob | EditCronJob | SuspendCronJob | DeleteCronJob | DeleteCronRun

AnyAction: TypeAlias = (
    Create
    | Delete
    | Scale
    | Bound
    | NameWorkers
    | AddGroup
    | RemoveGroup
    | ChangeTemplate
    | ChangeHosts
    | ChangeStrategy
    | ChangeRolling
    | EditPods
    | Suspend
    | SuspendGroup
    | Use
    | Wake
    | Evict
    | TakeNode
    | ChangeStorage
    | Demand
    | CreateJob
    | DeleteJob
    | SuspendJob
    | DeleteJobCluster
    | LoseRayJobs
    | CreateRayService
    | EditRayService
    | SuspendRayService
    | DeleteRayService
    | DeleteRayServiceCluster
    | LoseServe
    | CreateCronJob
    | EditCronJob
    | SuspendCronJob
    | DeleteCronJob
    | DeleteCronRun
    | RayFault
    | CreateWorkspace
    | DeleteWorkspace
    | LoseClaim
    | EndPod
    | DeleteService
    | LoseNode
    | RestoreNode
    | Restart
    | Compact
    | Fault
    | OneSided
    | DeleteLease
    | Webhook
    | Rival
    | Prune
    | RestoreDatabase
    | ClockJump
)


class Step(msgspec.Struct, frozen=True):
    """Wait so many seconds, then do this."""

    delay: Seconds
    action: AnyAction


class Surroundings(msgspec.Struct, frozen=True):
    """What stays as it is during a whole life. Times are in seconds.

    Attributes:
        seed: of uids and of the jitter of back-offs.
        start: from the binding of a pod to its start.
        ready: from the start of a pod until it is ready.
        termination: until a deleted pod is gone.
        eviction: until the pods of a lost node are evicted.
        collector_lag: how late the garbage collector hears of clusters.
        past: how many revisions old the answers to lists may be that accept old ones.
        streaming: whether the server knows streaming lists; if not, caches begin with old lists.
        scheduling: whether pods are placed by what nodes allow, which operators read.
    """

    seed: int = 0
    start: Seconds = 0.1
    ready: Seconds = 0.1
    termination: Seconds = 0.1
    eviction: Seconds = 10.0
    collector_lag: Seconds = 0.0
    past: int = 0
    streaming: bool = True
    scheduling: bool = False


class Scenario(msgspec.Struct, frozen=True):
    """A whole life.

    Attributes:
        drains: what becomes of the jobs that drain Ray's nodes.
        work: seconds until a worker that is being drained has no work any more.
        elected: whether there are two operators with one lease.
    """

    surroundings: Surroundings
    clusters: tuple[Cluster, ...]
    steps: tuple[Step, ...]
    jobs: tuple[Job, ...] = ()
    services: tuple[RayService, ...] = ()
    drains: Fate = Fate(running=2.0)
    work: Seconds = 0.0
    workspaces: tuple[Workspace, ...] = ()
    crons: tuple[CronJob, ...] = ()
    elected: bool = False

    @property
    def has_rolling(self) -> bool:
        actions = [step.action for step in self.steps]
        created = [*self.clusters, *(each.body for each in actions if isinstance(each, Create))]
        switched = (each.rolling for each in actions if isinstance(each, ChangeRolling))
        return any((*(each.rolling for each in created), *switched))

    @property
    def has_idle(self) -> bool:
        """Whether a cluster ends when nobody uses it."""
        return any(each.idle for each in self.clusters)

    @property
    def is_calm(self) -> bool:
        """Whether only nodes and users have accidents, and operators see all that happens."""
        peaceful = Evict | TakeNode | Use | Wake
        return all(isinstance(step.action, peaceful) for step in self.steps)

    @property
    def has_jobs(self) -> bool:
        return bool(self.jobs) or any(isinstance(step.action, CreateJob) for step in self.steps)

    @property
    def has_services(self) -> bool:
        created = any(isinstance(step.action, CreateRayService) for step in self.steps)
        return bool(self.services) or created

    @property
    def has_workspaces(self) -> bool:
        created = any(isinstance(step.action, CreateWorkspace) for step in self.steps)
        return bool(self.workspaces) or created

    @property
    def has_crons(self) -> bool:
        created = any(isinstance(step.action, CreateCronJob) for step in self.steps)
        return bool(self.crons) or created

    @property
    def has_restores(self) -> bool:
        return any(isinstance(step.action, RestoreDatabase) for step in self.steps)

    @property
    def has_steady_clocks(self) -> bool:
        return not any(isinstance(step.action, ClockJump) for step in self.steps)

    @property
    def may_hold_deletions(self) -> bool:
        """Whether no edit may explain a deletion, so that the user must delete the pods.

        A definition lacks a field, or somebody makes a copy of a pod that is outdated by then.
        """
        actions = [step.action for step in self.steps]
        copies = any(isinstance(each, EndPod) and each.how == "replace" for each in actions)
        return copies or any(isinstance(each, Prune) for each in actions)

    @property
    def has_gateway(self) -> bool:
        """Whether there is ever an incremental upgrade; then the Gateway API is installed."""
        edits = (step.action for step in self.steps)
        bodies = [e.body for e in edits if isinstance(e, CreateRayService | EditRayService)]
        wanted = "NewClusterWithIncrementalUpgrade"
        return any(body.upgrade == wanted for body in (*self.services, *bodies))

    @property
    def _first(self) -> tuple[object, ...]:
        """What is there from the beginning."""
        return (*self.clusters, *self.jobs, *self.services, *self.workspaces, *self.crons)

    def to_json(self) -> str:
        """One line; `from_json` reads it."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Scenario:
        """Read what `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

    def told(self) -> str:
        """One line for each step, for a person."""
        made = (f"create {each}" for each in self._first)
        lines = [str(self.surroundings), *made]
        return "\n".join([*lines, *(f"{step.delay:6.1f} s  {step.action}" for step in self.steps)])
