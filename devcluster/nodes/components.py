"""The common parts of components: settings, caches, a control loop, names, times, deletes.

Every delay is in seconds. The defaults make a pod Ready about two seconds after its creation,
which is quick and yet slow enough to see every intermediate state.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, cast

import structlog
from msgspec import Struct, field

from controller.apimachinery.conditions import rfc3339
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import Resource
from controller.kube.source import ResourceSource
from devcluster.nodes.pods import StatusPart, status_patch
from informers import Clock, Codec, Notification, SharedInformer, Updated
from workqueue import Workers, WorkQueue

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=KubeObject)

ANNOTATION_PREFIX = "sim.manta.dev/"
"""Prefix of the annotations that define the behaviour of a simulated pod."""


class NodeShape(Struct, frozen=True):
    """One simulated node.

    Attributes:
        resources: other capacities by name, such as `nvidia.com/gpu`.
        taints: taints as in `spec.taints`.
    """

    name: str
    cpu: str
    memory: str
    resources: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Mapping[str, str], ...] = ()


class NodeSettings(Struct, frozen=True, kw_only=True):
    """Settings of the node components.

    Attributes:
        scheduling: whether pods are placed as by kube-scheduler, on nodes that any client has
            registered, whose pods run here too. If not, pods are spread by uid over our nodes, and
            requests and labels are ignored.
        shapes: nodes of several kinds, instead of `nodes` alike ones.
        heartbeat: seconds between renewals of a Node's Ready condition, 0 for none. A real
            controller manager marks a node as lost after 40 s without one.
        start_delay: time from being bound to the start of the first container (image pull).
        init_delay: run time of each init container.
        ready_delay: time from the start of the containers to Ready.
        run_time: time from the start of the containers to their exit, for outcomes that have one
            and no `fail-after`.
        image_back_off: time from ErrImagePull to ImagePullBackOff.
        starts: maximum containers that start at once where pods are processes of this machine; 0
            for one for each CPU.
        start_time: seconds after which a container counts as started even if it is not ready.
        probe_pace: factor of the initial delays and periods of probes, where pods are processes;
            less than 1 for servers that are ready sooner than their probes expect.
        crash_back_off: pause before the second restart of a container; doubles with each one.
        termination_delay: time from the deletion of a pod to its removal, if the grace period is
            not shorter.
        eviction_delay: time from the loss of a node to the deletion of its pods.
        workers: number of objects that each component handles at once, and so of its concurrent
            writes.
    """

    nodes: int = 1
    scheduling: bool = False
    shapes: tuple[NodeShape, ...] = ()
    node_name: str = "manta-node"
    cpu: str = "1000"
    memory: str = "8Ti"
    max_pods: int = 100_000
    heartbeat: float = 0.0
    start_delay: float = 1.0
    init_delay: float = 0.5
    ready_delay: float = 1.0
    run_time: float = 1.0
    image_back_off: float = 10.0
    starts: int = 0
    start_time: float = 15.0
    probe_pace: float = 1.0
    crash_back_off: float = 10.0
    crash_back_off_cap: float = 300.0
    termination_delay: float = 1.0
    eviction_delay: float = 300.0
    workers: int = 16

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of all nodes, in order."""
        return tuple(shape.name for shape in self.node_shapes)

    @property
    def node_shapes(self) -> tuple[NodeShape, ...]:
        """All nodes, in order."""
        alike = (
            NodeShape(f"{self.node_name}-{number}", self.cpu, self.memory)
            for number in range(self.nodes)
        )
        return self.shapes or tuple(alike)


def seconds_since(text: str | None, now: datetime) -> float:
    """Return the seconds from the timestamp `text` to `now`; 0 if there is no timestamp.

    Raises:
        ValueError: `text` is not a timestamp with an offset.
    """
    if not text:
        return 0.0
    return (now - datetime.fromisoformat(text)).total_seconds()


_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 5


def suffix(*parts: str) -> str:
    """Return five characters of the alphabet of generated names, which depend on all `parts`."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_LENGTH])


async def delete_seen(
    client: Client, resource: Resource[Any], seen: KubeObject, *, grace_seconds: int | None = None
) -> None:
    """Delete exactly the object that was seen, if it still exists.

    Raises:
        controller.kube.errors.KubeError: the request failed.
    """
    meta = seen.metadata
    with suppress(NotFound, Conflict):
        await client.delete(
            resource, meta.namespace, meta.name, uid=meta.uid, grace_seconds=grace_seconds
        )


async def write_status(
    client: Client, resource: Resource[T], meta: ObjectMeta, old: StatusPart, new: StatusPart
) -> T | None:
    """Write a status to this revision of an object; None if nothing has changed.

    Raises:
        controller.kube.errors.KubeError: the request failed.
    """
    change = status_patch(old, new)
    if not change:
        return None
    seen = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    patch = {"metadata": seen, "status": change}
    return await client.merge_patch(
        resource, meta.namespace, meta.name, patch, subresource="status"
    )


_EVENTS = Resource("", "v1", "events", "Event", KubeObject)
_LONGEST_MESSAGE = 1024


async def record_event(
    client: Client,
    resource: Resource[Any],
    meta: ObjectMeta,
    *,
    reason: str,
    message: str,
    component: str,
    now: datetime,
    kind: str = "Warning",
    container: str = "",
) -> None:
    """Record an event about an object; the same words again are counted.

    Failures of the API server only lose it. `container` is a path, `spec.containers{main}`.
    """
    message, moment = message[:_LONGEST_MESSAGE], rfc3339(now)
    name = f"{meta.name}.{suffix(meta.uid, kind, reason, message, container)}"
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": meta.namespace},
        "involvedObject": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            **({"fieldPath": container} if container else {}),
        },
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
    with suppress(KubeError):
        try:
            await client.create(_EVENTS, meta.namespace, body)
        except AlreadyExists:
            known = await client.get_raw(_EVENTS, meta.namespace, name)
            seen = {key: known["metadata"][key] for key in ("uid", "resourceVersion")}
            change = {"metadata": seen, "lastTimestamp": moment, "count": known["count"] + 1}
            await client.merge_patch(_EVENTS, meta.namespace, name, change)


class NodeCaches:
    """Creates and runs informers."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._spawn = spawn
        self._informers: dict[str, SharedInformer[Any]] = {}
        self._started: set[str] = set()

    def informer(self, resource: Resource[T]) -> SharedInformer[T]:
        """Return the informer of `resource` in all namespaces; the first call sets its view."""
        name = str(resource)
        if name not in self._informers:
            informer = SharedInformer(
                name,
                ResourceSource(self._client, resource),
                Codec(resource.view),
                clock=self._clock,
                rng=self._rng,
            )
            self._informers[name] = informer
        return cast("SharedInformer[T]", self._informers[name])

    def start(self) -> None:
        """Start the informers that do not run yet. Indexes must be added before."""
        for name, informer in self._informers.items():
            if name not in self._started:
                self._started.add(name)
                self._spawn(informer.run())

    async def wait_for_sync(self) -> None:
        """Wait until every informer has listed its resource."""
        for informer in list(self._informers.values()):
            await informer.wait_for_sync()


_log = structlog.get_logger(__name__)


class ControlLoop(Generic[K]):
    """Workers around a queue.

    Args:
        sync: reconciles one object. It may return the seconds until the key's next turn. A
            `KubeError` is retried with back-off.
    """

    def __init__(
        self,
        name: str,
        sync: Callable[[K], Awaitable[float | None]],
        *,
        clock: Clock,
        rng: random.Random,
        workers: int,
    ) -> None:
        self._sync = sync
        self._log = _log.bind(component=name)
        self._queue: WorkQueue[K] = WorkQueue(name, clock=clock, rng=rng)
        self._workers = Workers(self._queue, self._attempt, workers, name=name, clock=clock)

    def add(self, key: K) -> None:
        """Enqueue `key`."""
        self._queue.add(key)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._workers.run()

    async def _attempt(self, key: K) -> None:
        try:
            delay = await self._sync(key)
        except KubeError as error:
            self._log.debug("later", key=key, error=repr(error))
            self._queue.add_rate_limited(key)
        except Exception:  # noqa: BLE001  an object that fails must not stop the others
            self._log.exception("failed", key=key)
            self._queue.add_rate_limited(key)
        else:
            self._queue.forget(key)
            if delay is not None:
                self._queue.add_after(key, delay)


def own_key(obj: KubeObject) -> tuple[str]:
    """Return the object's own key, for `Enqueue`."""
    return (obj.metadata.key,)


def always(key: str) -> Callable[[KubeObject], tuple[str]]:
    """Return what gives the same key for every object, for `Enqueue`."""
    return lambda _: (key,)


class Enqueue(Generic[T, K]):
    """An informer handler that enqueues the keys of every changed object."""

    def __init__(self, add: Callable[[K], None], keys: Callable[[T], Iterable[K]]) -> None:
        self._add = add
        self._keys = keys

    def __call__(self, change: Notification[T]) -> None:
        """Enqueue for each state that the change has: their keys may differ."""
        states = (change.old, change.new) if isinstance(change, Updated) else (change.object,)
        for state in states:
            for key in self._keys(state):
                self._add(key)


class ComponentContext(Struct, frozen=True):
    """Shared by all components."""

    client: Client
    caches: NodeCaches
    settings: NodeSettings
    clock: Clock
    wall: Callable[[], datetime]
    rng: random.Random


class LoopComponent(ABC, Generic[K]):
    """A component that is one control loop."""

    def __init__(self, name: str, context: ComponentContext) -> None:
        self._loop: ControlLoop[K] = ControlLoop(
            name,
            self._sync,
            clock=context.clock,
            rng=context.rng,
            workers=context.settings.workers,
        )

    @abstractmethod
    async def _sync(self, key: K, /) -> float | None:
        """Reconcile one object; see `ControlLoop`."""

    async def start(self) -> None:
        """Do nothing."""

    async def run(self) -> None:
        """Work until cancelled."""
        await self._loop.run()


class Component(Protocol):
    """A component of the cluster."""

    async def start(self) -> None:
        """Start the component, before the caches are filled."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...
