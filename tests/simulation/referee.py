"""Watches every transition of the store and writes down what no operator may ever do.

It sees the truth at once; an operator sees it late. So each pod that an operator makes or deletes
is judged by the generation of the RayCluster that the operator had observed when it first planned
that, and by all later ones: "desired" is the greatest number, or the least, that any of these asks
for. Every other excuse is one line of `_is_called_for`, or `LATE`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.cluster.observation import ClusterObservation
from controller.runtime.plan import Create, Delete, MergePatch, Plan, Write
from devcluster.apiserver.store import ObjectStore, StoredEvent
from tests.integration.harness import is_ready
from tests.ray.kuberay_values import foreign_values
from tests.simulation.definition import completed
from tests.simulation.memory import NOTICED, Memory, Truth
from tests.simulation.rolling_referee import Worker, head_lapses, lapses
from tests.simulation.rolling_wish import edition_of
from tests.simulation.wishes import History, Wish, is_halted, wish_of

ACTOR: ContextVar[str] = ContextVar("actor", default="")
"""Who makes the request that is being served: the name of an operator, or nobody of note."""

LATE = " (late)"
"""End of the actor's name if its request was delayed: whoever sent it may have given up on it,
repeated it, and undone what it did. Nothing in the API prevents that its pod then comes back."""

GROUP = "ray.io/group"
REPLICA = "ray.io/worker-group-replica-name"
DRAINING = "manta.dev/draining-since"
DISRUPTION = "manta.dev/disruption"
SERVE = "ray.io/serve"
TURNS = "GroupsUpgrading"
REDIS_FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"


class Intent(Struct, frozen=True):
    """What an operator knew when it first planned a write.

    Attributes:
        ghosts: pods of the group that it believed alive and that had ended.
        heads: uids of the heads that it believed in.
    """

    generation: int
    time: float
    ghosts: int = 0
    heads: frozenset[str] = frozenset()


class Seen(Struct, frozen=True):
    """A Ray pod at one moment.

    Attributes:
        slice: names its multi-host replica, empty if it has none.
        hidden: somebody has taken the label off by which operators find it.
        draining: an operator has begun to drain it.
        edition: of the template that it was made from.
    """

    uid: str
    name: str
    owner: str
    cluster: str
    group: str
    slice: str
    head: bool
    terminating: bool
    ended: bool
    dead: bool
    hidden: bool
    draining: bool
    edition: str

    @property
    def live(self) -> bool:
        return not self.terminating and not self.ended


class Referee:
    """Keeps its own books from the store's transitions.

    Attributes:
        violations: sentences; nothing in here means that the operators behaved.
        pods: the Ray pods that exist, by uid.
        clusters: all RayClusters that ever were, by uid.
        two_heads: the longest stretch of seconds in which a cluster had two live heads.
        pruned: fields that the installed definition drops: nobody has asked for that.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, strict: bool = True) -> None:
        self._loop = loop
        self._strict = strict
        self._names: set[tuple[str, str]] = set()
        self._creates: dict[str, Intent] = {}
        self._deletes: dict[str, Intent] = {}
        self._births: dict[str, int] = {}
        self._members: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._deleted: set[str] = set()
        self._editions: dict[str, str] = {}
        self._rolling: dict[tuple[str, str], float] = {}
        self._doubled: dict[str, float] = {}
        self._truth = Truth()
        self._memories: list[Memory] = []
        self._over_elsewhere: dict[str, float] = {}  # in the history before a restore, until when
        self.violations: list[str] = []
        self.pods: dict[str, Seen] = {}
        self.clusters: defaultdict[str, History] = defaultdict(History)
        self.two_heads = 0.0
        self.pruned: Collection[str] = ()

    # -- what it is told ----------------------------------------------------------------------

    def __call__(self, event: StoredEvent) -> None:
        obj = event.current.object
        for words in foreign_values(obj.get("kind", ""), obj.get("status", {})):
            self._blame(f"{obj['metadata']['name']}: {words}")
        if event.table == "rayclusters.ray.io":
            self._cluster(event)
        elif event.table == "pods" and (_is_ray(obj) or obj["metadata"]["uid"] in self.pods):
            self._pod(event)

    @property
    def replaced(self) -> set[str]:
        """Names of pods that a user has killed and made again."""
        return self._truth.replaced

    def memory(self) -> Memory:
        self._memories.append(Memory(self._loop, self._truth))
        return self._memories[-1]

    def restored(self, store: ObjectStore) -> None:
        """The database is as it was: operators notice late, and may act on either history."""
        present = [item.object for _, item in store.table(str(PODS)).now()]
        before, now = self.pods, self._loop.time()
        self.pods = {pod["metadata"]["uid"]: _seen(pod) for pod in present if _is_ray(pod)}
        for uid in self.pods:
            if uid not in before or not before[uid].live or before[uid].dead:
                self._over_elsewhere[uid] = now + NOTICED
        self._deleted -= self.pods.keys()
        self._names.clear()
        self._truth.restored({pod.name for pod in self.pods.values()}, self._loop.time())
        for memory in self._memories:
            memory.forget()
        stored = [item.object for _, item in store.table(str(RAYCLUSTERS)).now()]
        clusters = {each["metadata"]["uid"]: each for each in stored}
        for uid, history in self.clusters.items():
            self._restored(history, clusters.get(uid))

    def _restored(self, history: History, cluster: dict[str, Any] | None) -> None:
        halted, guarded = history.halted_until, history.guarded_until
        history.present = cluster is not None
        if cluster is not None:
            generation = cluster["metadata"]["generation"]
            history.restored_to = min(generation, history.restored_to or generation)
            self._note(cluster)
        noticed = self._loop.time() + NOTICED
        history.halted_until = max(history.halted_until, min(halted, noticed))
        history.guarded_until = max(history.guarded_until, min(guarded, noticed))

    def planned(self, seen: ClusterObservation, plan: Plan, memory: Memory) -> None:
        """An operator has decided; what it has decided before counts from then."""
        if self._strict and not memory.is_confused():
            present = {pod.name: pod.owner for pod in self.pods.values() if not pod.hidden}
            view = {pod.metadata.name: pod for pod in seen.all_pods}
            for lapse in memory.lapses(seen.cluster.metadata.uid, present, view):
                self._blame(f"the operator {lapse}")
        meta, now = seen.cluster.metadata, self._loop.time()
        writes = list(_writes_to_pods(plan))
        for write in writes:
            if isinstance(write, Create):
                self._creates.setdefault(write.target.name, Intent(meta.generation, now))
        begun = dict(_begun_drains(writes))
        surplus = {uid for uid, patch in begun.items() if patch.get("labels", {}).get(SERVE)}
        # a scale-down of a service takes the label as well: the worker goes once it has drained
        doomed = surplus | {write.uid for write in writes if isinstance(write, Delete)}
        for group, pods in seen.workers.items():
            self._planned_deletions(seen, group, pods, doomed)
        self._planned_deletions(seen, "", seen.heads, doomed)
        wishes = self.clusters[meta.uid].since(meta.generation)
        for pod in seen.all_workers:
            if pod.metadata.uid in seen.disruptions or _is_taken_away(pod):
                # it is replaced at once, as far as the surge goes
                self._rolling[meta.uid, (pod.metadata.labels or {})[GROUP]] = now
        drains = begun.keys() - surplus
        if drains or any(wish.rolling for wish in wishes):
            self._planned_update(seen, wishes, doomed, drains)

    def _planned_deletions(
        self, seen: ClusterObservation, group: str, pods: Sequence[Pod], doomed: set[str]
    ) -> None:
        meta = seen.cluster.metadata
        heads = frozenset(head.metadata.uid for head in seen.heads)
        intent = Intent(meta.generation, self._loop.time(), self._ghosts(pods), heads)
        for pod in pods:
            if pod.metadata.uid in doomed:
                self._deletes.setdefault(pod.metadata.uid, intent)
        if self._strict and group:
            self._judge_choice(self.clusters[meta.uid].since(meta.generation), group, pods, doomed)

    def _planned_update(
        self, seen: ClusterObservation, wishes: list[Wish], doomed: set[str], stamped: set[str]
    ) -> None:
        """Judge what a rolling update does, by the pods that the operator sees."""
        owner, now = seen.cluster.metadata.uid, self._loop.time()
        workers = {
            group: [self._worker(seen, pod, doomed, stamped, wishes) for pod in pods]
            for group, pods in seen.workers.items()
        }
        turns = seen.condition(TURNS)
        for group, members in workers.items():
            editions = {wish.edition(group) for wish in wishes}
            mixed = any(len({w.edition, *editions}) > 1 for w in members)
            changes = mixed or any(w.draining or w.taken for w in members)
            # a group whose turn is recorded may have the surge until its end is stored
            if changes or group in turns.get("message", "").split(", "):
                self._rolling[owner, group] = now
        if not self._strict:
            return
        heads = [pod for uid, pod in self.pods.items() if pod.head and pod.owner == owner]
        edition = heads[0].edition if heads else ""
        sentences = [*lapses(wishes, workers, edition)]
        going = [head for head in heads if head.uid in doomed and not head.dead]
        if not all(self._has_other_reason(seen, head, wishes) for head in going):
            sentences += head_lapses(wishes, workers)
        for sentence in sentences:
            self._blame(sentence)

    def _worker(
        self,
        seen: ClusterObservation,
        pod: Pod,
        doomed: set[str],
        stamped: set[str],
        wishes: list[Wish],
    ) -> Worker:
        meta = pod.metadata
        truth = self.pods.get(meta.uid)
        lost = truth is None or truth.dead or self._has_other_reason(seen, truth, wishes)
        draining = DRAINING in (meta.annotations or {})
        return Worker(
            meta.name,
            (meta.labels or {}).get(REPLICA, meta.name),
            self._editions[meta.uid],
            ready=is_ready(pod),
            draining=draining,
            terminating=meta.terminating,
            taken=meta.uid in self._deleted or (truth is not None and truth.draining),
            # a stamp may be corrected, and what others take away is drained too
            drains=meta.uid in stamped and not draining and not _is_taken_away(pod),
            goes=meta.uid in doomed and not lost,
            lost=lost,
        )

    def _has_other_reason(self, seen: ClusterObservation, pod: Seen, wishes: list[Wish]) -> bool:
        """Whether a deletion is called for by something else than a rolling update."""
        now = Intent(seen.cluster.metadata.generation, self._loop.time())
        intent, history = self._deletes.get(pod.uid, now), self.clusters[pod.owner]
        return self._is_called_for(pod, intent, history, wishes)

    def _ghosts(self, pods: Iterable[Pod]) -> int:
        """Those that look alive and are not, by nobody's doing but their own."""
        return sum(
            not pod.metadata.terminating
            and pod.metadata.uid not in self._deleted
            and ((truth := self.pods.get(pod.metadata.uid)) is None or truth.terminating)
            for pod in pods
        )

    # -- clusters -----------------------------------------------------------------------------

    def _cluster(self, event: StoredEvent) -> None:
        self._note(event.current.object)
        self.clusters[event.current.object["metadata"]["uid"]].present = event.type != "DELETED"

    def _note(self, obj: dict[str, Any]) -> None:
        history = self.clusters[obj["metadata"]["uid"]]
        history.name = obj["metadata"]["name"]
        guarded = REDIS_FINALIZER in obj["metadata"].get("finalizers", ())
        history.guarded_until = self._until_now(history.guarded_until, goes_on=guarded)
        history.halted_until = self._until_now(history.halted_until, goes_on=is_halted(obj))
        history.spec = completed(obj["spec"], history.spec, self.pruned)
        if history.spec != obj["spec"]:
            history.cut.add(obj["metadata"]["generation"])
        wish = wish_of({**obj, "spec": history.spec})
        if not history.wishes or history.wishes[-1] != wish:
            history.wishes.append(wish)

    def _until_now(self, until: float, *, goes_on: bool) -> float:
        """Until when something lasted that was known to last until then."""
        if goes_on:
            return float("inf")
        return self._loop.time() if until == float("inf") else until

    # -- pods ---------------------------------------------------------------------------------

    def _pod(self, event: StoredEvent) -> None:
        pod = _seen(event.current.object)
        before = self.pods.get(pod.uid)
        if before is not None:  # outside of the selection it still is what it was made as
            kept = {name: getattr(before, name) for name in ("cluster", "group", "slice", "head")}
            pod = replace(pod, **kept)
        self._editions[pod.uid] = pod.edition
        if event.type == "DELETED":
            self.pods.pop(pod.uid, None)
            self._truth.went[pod.name] = self._loop.time()
            if pod.head:
                self.clusters[pod.owner].heads_left[pod.uid] = self._loop.time()
        else:
            self.pods[pod.uid] = pod
        if before is None and event.type == "ADDED":
            self._appeared(pod)
        elif before is not None and not before.terminating:
            if event.type == "DELETED" or pod.terminating:
                self._went(before)
            elif before.live and not pod.live:
                self._ended(before)
        self._count_heads(pod.cluster)

    def _ended(self, pod: Seen) -> None:
        group = "" if pod.head else pod.group
        self.clusters[pod.owner].ends.append((self._loop.time(), group))

    def _went(self, pod: Seen) -> None:
        """It is going or has gone, by an operator's request or somebody else's."""
        if not ACTOR.get():
            self._ended(pod)
            return
        self._deleted.add(pod.uid)
        if self._strict and not pod.dead:
            self._judge_deletion(pod)

    def _appeared(self, pod: Seen) -> None:
        history, late = self.clusters[pod.owner], ACTOR.get().endswith(LATE)
        self._truth.came[pod.name] = self._loop.time()
        if not ACTOR.get():
            self._replaced(pod, history)
            return
        again = (pod.owner, pod.name) in self._names
        if again and not late and pod.name in self._truth.known:
            self._blame(f"the name {pod.name} was used twice")
        if again and late:
            self._truth.replaced.add(pod.name)
        self._names.add((pod.owner, pod.name))
        intent = self._creates[pod.name]
        self._births[pod.uid] = intent.generation
        if pod.head:
            history.heads[pod.uid] = intent.generation
            if self.pruned or intent.generation in history.cut:
                history.cut_heads.add(pod.uid)
        self._members[pod.owner, pod.slice].add(pod.uid)
        if self._strict and not (again and late):
            self._judge_creation(pod, history, intent)

    def _replaced(self, pod: Seen, history: History) -> None:
        """A user has made it under the name of another: nobody counted on it."""
        self._truth.replaced.add(pod.name)
        self._births[pod.uid] = self._creates[pod.name].generation
        self._members[pod.owner, pod.slice].add(pod.uid)
        if pod.head:
            history.heads[pod.uid] = self._births[pod.uid]

    def _judge_creation(self, pod: Seen, history: History, intent: Intent) -> None:
        wishes = history.since(intent.generation)
        if all(wish.deleting for wish in wishes):
            self._blame(f"{pod.name} was made for a cluster that was deleted")
        unsafe = all(wish.redis for wish in wishes) and not any(w.deleting for w in wishes)
        if unsafe and history.guarded_until < intent.time:
            self._blame(f"{pod.name} was made before the finalizer that cleans up after it")
        if pod.head:
            others = [o.name for o in self._counted() if o.head and o.owner == pod.owner]
            if len(others) > 1:
                self._blame(f"head {pod.name} was made beside {sorted(others)}")
            if all(wish.suspended for wish in wishes):
                self._blame(f"head {pod.name} was made for a suspended cluster")
            return
        most = max(wish.pods(pod.group) for wish in wishes)
        if self._rolling.get((pod.owner, pod.group), -1.0) >= intent.time:
            most = max(wish.pods(pod.group) + wish.surge(pod.group) for wish in wishes)
        workers = [o for o in self._counted() if o.owner == pod.owner and o.group == pod.group]
        # a replica that is going holds one place, however many hosts it was made with
        hosts = max((w.groups[pod.group].hosts for w in wishes if pod.group in w.groups), default=1)
        going = Counter(o.slice for o in workers if o.slice and o.terminating)
        present = len(workers) - sum(max(0, number - hosts) for number in going.values())
        present -= sum(self._is_over_elsewhere(other.uid) for other in workers)
        if any(o.slice == pod.slice and o.live and o.uid != pod.uid for o in workers if o.slice):
            # it completes a replica that stays, and need not wait for those that go
            present = sum(not other.terminating for other in workers)
        if present > most:
            self._blame(f"{pod.name} is number {present}, at most {most} were asked for")

    def _is_over_elsewhere(self, uid: str) -> bool:
        """Whether an operator may still believe in a history in which a pod had ended."""
        return self._over_elsewhere.get(uid, 0.0) > self._loop.time()

    def _judge_deletion(self, pod: Seen) -> None:
        """An operator has deleted a pod that was alive: was that called for?"""
        intent = self._deletes.get(pod.uid)
        if intent is None:
            self._blame(f"{pod.name} was deleted, and it was another that was to go")
            return
        history = self.clusters[pod.owner]
        wishes = history.since(intent.generation)
        if self._is_called_for(pod, intent, history, wishes) or _is_upgraded(pod, wishes):
            return
        if any(map(self._is_over_elsewhere, {pod.uid, *self._mates(pod)})):
            return
        if pod.head:
            self._blame(f"head {pod.name} was deleted and nobody asked for that")
            return
        if all(wish.autoscaling for wish in wishes):
            self._blame(f"{pod.name} was deleted, and no autoscaler had named it")
            return
        least = min(wish.pods(pod.group) for wish in wishes)
        others = self._workers(pod.owner, pod.group)
        left = sum(not o.terminating and o.uid != pod.uid for o in others)
        mates = sum(o.slice == pod.slice and not o.terminating for o in others) if pod.slice else 0
        lost = intent.ghosts + history.ended_since(intent.time, pod.group)
        if left - mates + lost < least:
            self._blame(f"{pod.name} was deleted, which leaves {left - mates} of {least}")

    def _mates(self, pod: Seen) -> set[str]:
        """Uids of all that ever were in its multi-host replica, with its own; empty if in none."""
        return self._members[pod.owner, pod.slice] if pod.slice else set()

    def _is_called_for(
        self, pod: Seen, intent: Intent, history: History, wishes: list[Wish]
    ) -> bool:
        made_with = history.hosts_at(self._births[pod.uid], pod.group) if pod.slice else 1
        slice_uids = self._mates(pod) or {pod.uid}
        mates = [self.pods.get(uid) for uid in slice_uids if uid != pod.uid]
        names = {pod.name, *(mate.name for mate in mates if mate)}
        asked = [wish.groups[pod.group] for wish in wishes if pod.group in wish.groups]
        return (
            # a suspension has been committed, and goes on until every pod is gone
            history.halted_until >= intent.time
            # cleaning up after a deleted cluster begins with its pods
            or any(wish.deleting for wish in wishes)
            # Recreate, and the specification is not that from which the head was made
            or any(
                wish.recreate and history.is_outdated(wish, intent.time, intent.heads)
                for wish in wishes
            )
            # its group is suspended, or no longer there
            or (not pod.head and (len(asked) < len(wishes) or any(g.suspended for g in asked)))
            # it, or a pod of the same multi-host replica, is named in workersToDelete
            or any(names & group.names for group in asked)
            # another pod of its multi-host replica has ended, or was never made
            or any(mate is None or not mate.live or mate.dead for mate in mates)
            or (bool(pod.slice) and any(len(slice_uids) < group.hosts for group in asked))
            # numOfHosts is not that with which it was made: 1 if it is of no replica, also if a
            # definition had dropped another number from that generation
            or any(g.hosts != made_with for g in asked)
            # a user has put another head beside it, and a cluster has one
            or (pod.head and self._has_copied_head(pod.owner))
        )

    def _has_copied_head(self, owner: str) -> bool:
        heads = (each for each in self.pods.values() if each.head and each.owner == owner)
        return any(head.live and head.name in self._truth.replaced for head in heads)

    def _judge_choice(
        self, wishes: list[Wish], group: str, pods: Sequence[Pod], doomed: set[str]
    ) -> None:
        """Replicas go whole; a ready one goes only if no unready one of its group stays."""
        if not doomed or any(w.autoscaling or w.pods(group) == 0 for w in wishes):
            return
        named = {name for wish in wishes for name in wish.groups[group].names}
        hosts = wishes[0].groups[group].hosts
        replicas: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            if not pod.metadata.terminating:
                replicas[(pod.metadata.labels or {}).get(REPLICA, pod.metadata.name)].append(pod)
        staying = [r for r in replicas.values() if not any(p.metadata.uid in doomed for p in r)]
        unready = [r[0].metadata.name for r in staying if not all(is_ready(pod) for pod in r)]
        if any(wish.rolling for wish in wishes):
            unready = []  # outdated ones go for others that are to be ready
        for replica in replicas.values():
            going = [pod for pod in replica if pod.metadata.uid in doomed]
            if going and any(self._stays(pod) for pod in replica if pod not in going):
                self._blame(f"only {[p.metadata.name for p in going]} of a replica are to go")
            whole = len(replica) == hosts and all(is_ready(pod) for pod in replica)
            asked = any(pod.metadata.name in named or _drains(pod) for pod in replica)
            if going and whole and not asked and unready:
                self._blame(f"{going[0].metadata.name} is ready and goes before {unready}")

    def _stays(self, pod: Pod) -> bool:
        """Whether a pod that is not to go works on; one that has ended waits for its successor."""
        truth = self.pods.get(pod.metadata.uid)
        return truth is not None and not truth.dead

    def _counted(self) -> list[Seen]:
        """The pods but for those that a user has put there."""
        return [pod for pod in self.pods.values() if pod.name not in self._truth.replaced]

    def _workers(self, owner: str, group: str) -> list[Seen]:
        """The pods of a group, those that have ended or are going included."""
        return [
            pod
            for pod in self.pods.values()
            if pod.owner == owner and pod.group == group and not pod.head
        ]

    def _count_heads(self, cluster: str) -> None:
        now = self._loop.time()
        live = sorted(p.name for p in self._counted() if p.head and p.cluster == cluster and p.live)
        if len(live) < 2:
            since = self._doubled.pop(cluster, now)
            self.two_heads = max(self.two_heads, now - since)
        elif cluster not in self._doubled:
            self._doubled[cluster] = now
            if self._strict:
                self._blame(f"{cluster} has two live heads: {', '.join(live)}")

    def _blame(self, what: str) -> None:
        self.violations.append(f"{self._loop.time():.3f} s, {ACTOR.get() or 'a plan'}: {what}")


def _is_taken_away(pod: Pod) -> bool:
    """Whether somebody else has deleted the pod, or has said that he will."""
    conditions = pod.status.conditions
    announced = any(
        each.type == "DisruptionTarget" and each.status == "True" for each in conditions
    )
    marked = DISRUPTION in (pod.metadata.annotations or {})
    return pod.metadata.terminating or announced or marked


def _is_ray(pod: dict[str, Any]) -> bool:
    """Whether it is a head or a worker, and not a copy of a head that cleans up Redis."""
    return _label(pod, "is-ray-node") == "yes" and _label(pod, "node-type") != "redis-cleanup"


def _writes_to_pods(plan: Plan) -> Iterator[Write]:
    for stage in plan.stages:
        yield from (write for write in stage if write.target.resource is PODS)


def _drains(pod: Pod) -> bool:
    return DRAINING in (pod.metadata.annotations or {})


def _begun_drains(writes: Iterable[Write]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Uids of the pods that begin to drain, and the change of their metadata.

    Whether others take a pod away is judged where nodes are seen: `disruptions.py`.
    """
    for write in writes:
        if isinstance(write, MergePatch):
            metadata = write.patch.get("metadata", {})
            stamps = metadata.get("annotations") or {}
            if stamps.get(DRAINING) and DISRUPTION not in stamps:
                yield write.uid, metadata


def _is_upgraded(pod: Seen, wishes: list[Wish]) -> bool:
    """Whether a rolling update may replace it; `rolling_referee.py` judges when and how many."""
    if pod.head:
        return any(w.rolling and w.keeps_state and w.head_edition != pod.edition for w in wishes)
    # what drains already is of no use any more
    return pod.draining or any(w.rolling and w.edition(pod.group) != pod.edition for w in wishes)


def _label(obj: dict[str, Any], name: str) -> str:
    return (obj["metadata"].get("labels") or {}).get(f"ray.io/{name}", "")


def _seen(obj: dict[str, Any]) -> Seen:
    meta, status = obj["metadata"], obj.get("status", {})
    owners = [r["uid"] for r in meta.get("ownerReferences", []) if r.get("controller")]
    ended = status.get("phase") in {"Failed", "Succeeded"}
    return Seen(
        uid=meta["uid"],
        name=meta["name"],
        owner=owners[0] if owners else "",
        cluster=_label(obj, "cluster"),
        group=_label(obj, "group"),
        slice=(meta.get("labels") or {}).get(REPLICA, ""),
        head=_label(obj, "group") == "headgroup",
        terminating="deletionTimestamp" in meta,
        ended=ended,
        dead=ended or _ray_has_exited(obj),
        hidden=not _label(obj, "node-type"),
        draining=DRAINING in (meta.get("annotations") or {}),
        edition=edition_of(obj["spec"]),
    )


def _ray_has_exited(pod: dict[str, Any]) -> bool:
    """Whether its Ray container has ended and nobody will start it again."""
    ray = pod["spec"]["containers"][0]["name"]
    states = pod.get("status", {}).get("containerStatuses", [])
    exited = any(s["name"] == ray and "terminated" in s.get("state", {}) for s in states)
    return exited and pod["spec"].get("restartPolicy") == "Never"
