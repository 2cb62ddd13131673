"""What `manta status`, `manta why` and the web page read: objects, their pods, and events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import time_of
from controller.kaito.api import labels as model_labels
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.karpenter import NODE_CLAIMS, POOL_CLAIMS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.client import Client
from controller.kube.errors import Forbidden, KubeError, PathNotFound
from controller.kube.objects import KubeObject, Pod, View
from controller.kube.resources import JOBS, PODS, STATEFUL_SETS, Resource
from controller.kube.source import ResourceSource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES
from controller.ray.api.names import RayObject
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.head import RAY_PODS
from informers import Codec, Failed, SharedInformer, SourceError


class Regarding(View, frozen=True):
    """`regarding` of an event."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Series(View, frozen=True):
    """`series` of an event that has happened again."""

    count: int = 0
    last_observed_time: str | None = None


class SeenEvent(KubeObject, frozen=True):
    """An event, of the present API or of the one before it, which kubelets and schedulers use."""

    type: str = ""
    reason: str = ""
    note: str = ""
    event_time: str | None = None
    reporting_controller: str = ""
    regarding: Regarding = Regarding()
    series: Series | None = None
    deprecated_count: int | None = None
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None

    @property
    def first(self) -> datetime:
        """When it happened first."""
        given = (self.event_time, self.deprecated_first_timestamp)
        return _first_of(*given, self.metadata.creation_timestamp)

    @property
    def last(self) -> datetime:
        """When it happened last."""
        observed = self.series.last_observed_time if self.series else None
        given = (observed, self.deprecated_last_timestamp, self.event_time)
        return _first_of(*given, self.metadata.creation_timestamp)

    @property
    def count(self) -> int:
        """How often it has happened."""
        return self.series.count if self.series else self.deprecated_count or 1


def _first_of(*times: str | None) -> datetime:
    found = (time_of(each) for each in times)
    return next((each for each in found if each is not None), datetime.min.replace(tzinfo=UTC))


EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", SeenEvent)
MODEL_KINDS: Final[tuple[Resource[Any], ...]] = (WORKSPACES, INFERENCE_SETS)
KINDS: Final[tuple[Resource[Any], ...]] = (
    RAYCLUSTERS,
    RAYJOBS,
    RAYSERVICES,
    RAYCRONJOBS,
    RAYCLUSTERFLEETS,
    *MODEL_KINDS,
)
"""All kinds; those that the API server does not serve are left out."""
# Parts, as in `controller.kaito.workspace.watches`, which takes long to import.
MODEL_JOBS: Final = replace(JOBS, part="workspaces")
MODEL_PODS: Final = replace(PODS, part="workspaces")
MODEL_CHILDREN: Final[tuple[Resource[Any], ...]] = (
    NODE_CLAIMS,
    STATEFUL_SETS,
    MODEL_JOBS,
    MODEL_PODS,
)
"""What belongs to Workspaces."""
CACHED_CHILDREN: Final[tuple[Resource[Any], ...]] = (PODS, POOL_CLAIMS, *MODEL_CHILDREN)
"""What belongs to objects of all kinds, as the operator's caches have it."""


def resources_of(kind: Resource[Any]) -> list[Resource[Any]]:
    """Return what a tree of this kind shows, itself first."""
    if kind in MODEL_KINDS:
        return [kind, *(each for each in MODEL_KINDS if each is not kind), *MODEL_CHILDREN, EVENTS]
    ray = [each for each in KINDS if each not in MODEL_KINDS and each is not kind]
    return [kind, *ray, PODS, EVENTS]


_SETTLES: Final = 0.2
"""Seconds after a change in which more of them are awaited, since changes come together."""


@dataclass(slots=True)
class Seen:
    """What was read, by resource, and sentences about what could not be read, with what to do."""

    found: dict[Resource[Any], list[Any]] = field(
        default_factory=dict["Resource[Any]", "list[Any]"]
    )
    missing: list[str] = field(default_factory=list[str])

    @property
    def objects(self) -> dict[Resource[Any], list[RayObject]]:
        """The objects of `KINDS`."""
        return {each: items for each, items in self.found.items() if each in KINDS}

    @property
    def pods(self) -> list[Pod]:
        """Pods of Ray and of models."""
        return self.every(PODS)

    @property
    def events(self) -> list[SeenEvent]:
        """Events of the namespace."""
        return self.every(EVENTS)

    def every(self, resource: Resource[Any]) -> list[Any]:
        """Return all objects of a resource, of which several parts may have been read."""
        parts = (items for each, items in self.found.items() if each.plural == resource.plural)
        return [obj for items in parts for obj in items]


async def read(client: Client, resources: Sequence[Resource[Any]], namespace: str) -> Seen:
    """List these resources; what may not be read is missing from the answer, and named.

    Raises:
        KubeError: the API server could not be reached, or does not serve the first one.
    """
    seen, first = Seen(), resources[0]
    answers = await asyncio.gather(
        *(_list(client, each, namespace, required=each is first) for each in resources)
    )
    for resource, answer in zip(resources, answers, strict=True):
        if isinstance(answer, Forbidden):
            seen.missing.append(_missing_right(resource, namespace, answer))
        elif answer is not None:
            seen.found[resource] = answer
    return seen


async def _list(
    client: Client, resource: Resource[Any], namespace: str, *, required: bool
) -> list[Any] | Forbidden | None:
    """Return the objects, the refusal, or None if this kind is not served."""
    try:
        listed = await client.list(resource, namespace, label_selector=_selector(resource))
    except Forbidden as error:
        return error
    except PathNotFound:
        if required:
            raise
        return None
    return listed.items


def _selector(resource: Resource[Any]) -> str:
    if resource is MODEL_PODS:
        return model_labels.WORKSPACE
    return RAY_PODS.label_selector if resource is PODS else ""


def _missing_right(resource: Resource[Any], namespace: str, error: Exception) -> str:
    where = f"in namespace {namespace}" if namespace else "in all namespaces (-n chooses one)"
    return (
        f"{resource} are not shown: the right to list and watch them {where} is missing, ask for "
        f"it or choose another account with --context ({error})"
    )


class Watch:
    """Objects that are kept up to date by watches, and what cannot be read at all."""

    def __init__(self, missing: Sequence[str]) -> None:
        self._missing = missing
        self._informers: dict[Resource[Any], SharedInformer[Any]] = {}
        self._problems: dict[Resource[Any], str] = {}
        self._changed = asyncio.Event()
        self._refusal = ""

    def informer(
        self, client: Client, resource: Resource[Any], namespace: str
    ) -> SharedInformer[Any]:
        """Return a new informer of this resource, whose objects `change` returns."""
        informer = SharedInformer(
            str(resource),
            ResourceSource(client, resource, namespace, _selector(resource)),
            Codec(resource.view),
            clock=asyncio.get_running_loop(),
            rng=random.Random(),
        )

        def on_error(error: SourceError) -> None:
            if isinstance(error, Failed) and error.status == 403:
                self._refusal = _missing_right(resource, namespace, error)
            self._problems[resource] = f"{resource} may be old, and are asked for again: {error}"
            self._changed.set()

        def on_change(_changes: object, _revision: str) -> None:
            self._problems.pop(resource, "")
            self._changed.set()

        informer.on_change(on_change)
        informer.on_error(on_error)
        self._informers[resource] = informer
        return informer

    def ended(self, task: asyncio.Task[None]) -> None:
        """Take note of a watch that has ended by itself."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._refusal = f"the watch has ended: {error}"
            self._changed.set()

    async def change(self, patience: float) -> Seen | None:
        """Wait for changes, `patience` seconds at most; return what there is then.

        None means that not everything has been listed yet.

        Raises:
            KubeError: a watch was refused, or has ended.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._changed.wait()
            await asyncio.sleep(_SETTLES)
        self._changed.clear()
        if self._refusal:
            raise KubeError(self._refusal)
        complete = all(each.has_synced for each in self._informers.values())
        return self.seen() if complete else None

    def seen(self, namespace: str = "") -> Seen:
        """Return what there is now in a namespace, or in all."""
        seen = Seen(missing=[*self._missing, *self._problems.values()])
        for resource, informer in self._informers.items():
            found = informer.lister.list()
            seen.found[resource] = within(namespace, resource, found)
        return seen


def within(namespace: str, resource: Resource[Any], items: Iterable[Any]) -> list[Any]:
    """Return the objects of a namespace, or all if it is empty or they have none."""
    if not (namespace and resource.namespaced):
        return [*items]
    return [each for each in items if each.metadata.namespace == namespace]


@asynccontextmanager
async def watching(client: Client, seen: Seen, namespace: str) -> AsyncGenerator[Watch]:
    """Keep what was read up to date by watches, until the block ends."""
    watch = Watch(seen.missing)
    informers = [watch.informer(client, each, namespace) for each in seen.found]
    tasks = [asyncio.create_task(each.run()) for each in informers]
    for each in tasks:
        each.add_done_callback(watch.ended)
    try:
        yield watch
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
