"""Ray's autoscaler as a client of the API server, as far as KubeRay's users have it.

It reads the RayCluster and the pods that carry its label, perhaps from the past, takes the names
of pods for the identities of instances, and changes two things only: `replicas` of a worker group
and, in the same patch, `scaleStrategy.workersToDelete`. It changes nothing unless the load needs
more workers than there are, or does not need one for some time. The two generations differ in when
they act and in what they take for the present number.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from controller.kube.client import Client
from controller.kube.errors import KubeError
from controller.ray.api import RAYCLUSTERS, labels

Patch: TypeAlias = dict[str, Any]
Names: TypeAlias = tuple[str, ...]
Victims: TypeAlias = Callable[[list[Names], int], Iterable[Names]]


def last_ones(replicas: list[Names], count: int) -> list[Names]:
    """Which replicas to give up: an autoscaler knows which are idle, a test need not."""
    return replicas[-count:]


class Group(Struct, frozen=True):
    """A worker group as the autoscaler sees it.

    Attributes:
        position: in workerGroupSpecs.
        wanted: `replicas` as it stands in the specification.
        named: workersToDelete as it stands there.
        working: those that are not being drained. Ray gives no work to the others, and they end
            what they have.
    """

    position: int
    name: str
    wanted: int
    least: int
    most: int
    named: Names
    replicas: list[Names]
    working: list[Names]

    @property
    def path(self) -> str:
        """Where it stands in the RayCluster."""
        return f"/spec/workerGroupSpecs/{self.position}"

    @property
    def waits(self) -> bool:
        """Whether a pod that was to be deleted still lives."""
        return any(name in self.named for names in self.replicas for name in names)

    def replace(self, path: str, value: Any) -> Patch:
        """One operation of a JSON patch on this group."""
        return {"op": "replace", "path": f"{self.path}/{path}", "value": value}

    def name_workers(self, names: Iterable[str]) -> Patch:
        """The operation that replaces workersToDelete."""
        return self.replace("scaleStrategy", {"workersToDelete": list(names)})


class Autoscaler:
    """The autoscaler of one head pod; the next head has another one.

    Args:
        version: `v1` or `v2`.
        demand: how many replicas of each group Ray's load needs, `replicas` if it says nothing;
            may change at any time.
        victims: chooses the replicas that are idle.
        revision: from which revision on pods may be read, empty for the present; asked each time.

    Attributes:
        returned: names of pods that came back after it had seen them die: it ignores them for
            ever, so there must be none.
        patches: how often it has changed the cluster.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        cluster: str,
        *,
        version: str,
        demand: dict[str, int],
        victims: Victims = last_ones,
        idle_timeout: float = 0.0,
        revision: Callable[[], str] = str,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._cluster = cluster
        self._step = self._second if version == "v2" else self._first
        self._demand = demand
        self._victims = victims
        self._idle_timeout = idle_timeout
        self._idle_since: dict[Names, float] = {}
        self._revision = revision
        self._alive: dict[str, str] = {}  # uids by name
        self._dead: dict[str, str] = {}
        self.returned: list[str] = []
        self.patches = 0

    async def update(self) -> None:
        """One round, as Ray makes one every few seconds; errors are for the next round."""
        try:
            groups = await self._read()
            operations = self._step(groups)
            if operations:
                await self._client.json_patch(
                    RAYCLUSTERS, self._namespace, self._cluster, operations
                )
                self.patches += 1
        except KubeError:
            return

    # -- the two generations ------------------------------------------------------------------

    def _first(self, groups: list[Group]) -> list[Patch]:
        """v1 waits for all deletions of the cluster, clears the lists, and counts live pods."""
        if any(group.waits for group in groups):
            return []
        requests = self._requests(groups, [len(group.replicas) for group in groups])
        return [*requests, *_cleared(groups, requests)]

    def _second(self, groups: list[Group]) -> list[Patch]:
        """v2 counts what was asked for as well, and clears a list with its next request only."""
        if any(group.waits for group in groups):
            return []
        present = [max(group.wanted, group.least, len(group.replicas)) for group in groups]
        requests = self._requests(groups, present)
        return [*requests, *_cleared(groups, requests)] if requests else []

    def _requests(self, groups: list[Group], present: list[int]) -> list[Patch]:
        """Nothing, or what all groups should have: what they have, and more or less of it."""
        idle = self._idle(groups)
        targets = [self._target(group) for group in groups]
        lacks = (t > min(n, g.wanted) for g, t, n in zip(groups, targets, present, strict=True))
        if not any(lacks) and not any(idle):
            return []
        requests: list[Patch] = []
        for group, target, number, given_up in zip(groups, targets, present, idle, strict=True):
            wanted = min(max(number, target) - len(given_up), group.most)
            if wanted != group.wanted:
                requests.append(group.replace("replicas", wanted))
            if given_up:
                requests.append(group.name_workers(n for names in given_up for n in names))
        return requests

    def _target(self, group: Group) -> int:
        needed = self._demand.get(group.name, group.wanted)
        return max(group.least, min(needed, group.most))

    def _idle(self, groups: list[Group]) -> list[list[Names]]:
        """Of each group the replicas that the load has not needed for long enough."""
        now, before = asyncio.get_running_loop().time(), self._idle_since
        self._idle_since = {
            names: before.get(names, now) for group in groups for names in self._unused(group)
        }
        late = {n for n, since in self._idle_since.items() if now - since >= self._idle_timeout}
        return [[names for names in group.replicas if names in late] for group in groups]

    def _unused(self, group: Group) -> Iterable[Names]:
        excess = len(group.working) - self._target(group)
        return self._victims(group.working, excess) if excess > 0 else ()

    # -- reading ------------------------------------------------------------------------------

    async def _read(self) -> list[Group]:
        cluster = await self._client.get_raw(RAYCLUSTERS, self._namespace, self._cluster)
        pods = await self._pods()
        self._remember(pods)
        return [
            _group(position, spec, pods)
            for position, spec in enumerate(cluster["spec"].get("workerGroupSpecs", []))
        ]

    async def _pods(self) -> list[dict[str, Any]]:
        """The worker pods that are not going and whose names are not those of dead ones."""
        query = {"labelSelector": f"ray.io/cluster={self._cluster},ray.io/node-type=worker"}
        revision = self._revision()
        if revision:
            query |= {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        listed = await self._client.request_json("GET", path, query=query)
        alive = [pod for pod in listed["items"] if _is_alive(pod)]
        self.returned += [
            pod["metadata"]["name"]
            for pod in alive
            if self._dead.get(pod["metadata"]["name"], pod["metadata"]["uid"])
            != pod["metadata"]["uid"]
        ]
        return [pod for pod in alive if pod["metadata"]["name"] not in self._dead]

    def _remember(self, pods: list[dict[str, Any]]) -> None:
        """Take note of who has died, and of who came back."""
        alive = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
        self._dead |= {name: uid for name, uid in self._alive.items() if name not in alive}
        self._alive = alive


def _is_alive(pod: dict[str, Any]) -> bool:
    ended = pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}
    return not ended and "deletionTimestamp" not in pod["metadata"]


def _group(position: int, spec: dict[str, Any], pods: list[dict[str, Any]]) -> Group:
    replicas: defaultdict[str, list[str]] = defaultdict(list)
    draining: set[str] = set()
    for pod in pods:
        meta = pod["metadata"]
        if meta["labels"].get("ray.io/group") == spec["groupName"]:
            replica = meta["labels"].get("ray.io/worker-group-replica-name", meta["name"])
            replicas[replica].append(meta["name"])
            if labels.DRAINING_SINCE in meta.get("annotations", ()):
                draining.add(replica)
    return Group(
        position,
        spec["groupName"],
        spec.get("replicas", 0),
        spec.get("minReplicas", 0),
        spec.get("maxReplicas", 1 << 31),
        tuple(spec.get("scaleStrategy", {}).get("workersToDelete", ())),
        [tuple(names) for _, names in sorted(replicas.items())],
        [tuple(names) for name, names in sorted(replicas.items()) if name not in draining],
    )


def _cleared(groups: list[Group], requests: list[Patch]) -> Iterator[Patch]:
    """The operations that clear lists of workers that are gone."""
    paths = {each["path"] for each in requests}
    for group in groups:
        if group.named and f"{group.path}/scaleStrategy" not in paths:
            yield group.name_workers(())
