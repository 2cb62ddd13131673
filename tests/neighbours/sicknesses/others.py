"""Others write to the tenant's objects as well."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import reduce
from operator import getitem
from typing import Any

from controller.kaito.api.workspace import WORKSPACES
from controller.kube.errors import NotFound
from controller.kube.resources import NAMESPACES, SERVICES, STATEFUL_SETS, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from tests.neighbours.kinds import Manifest
from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import KAITO, UPGRADES, Sickness

CONTESTED = "another writer keeps changing .*configure or stop one of the two writers"
STORM = 29.5
"""Seconds after which the storm of foreign pods begins: shortly before the healthy object does."""

CLUSTERS = frozenset({"RayCluster"})
CREATED = {str(each): each for each in (RAYCLUSTERS, RAYJOBS, STATEFUL_SETS, WORKSPACES)}
"""What kinds create, but for pods."""

EDITS: dict[str, tuple[Any, ...]] = {
    "RayCluster": ("spec", "workerGroupSpecs", 0, "replicas", 3),
    "RayJob": ("spec", "suspend", True),
    "StatefulSet": ("spec", "replicas", 3),
    "Workspace": ("resource", "count", 2),
}
"""A field of each, and what another controller makes of it."""

PODS_ONLY = CLUSTERS | UPGRADES
FIELDS = ("RayService", "RayClusterFleet")
"""Kinds that keep the fields of their clusters as they are wanted."""

HOLD = "example.com/hold"

ORDERS = 90
"""Edits of a mad autoscaler, one a second. Each is its user's order, which must be carried out and
acknowledged however many there are: no bound but by order can be had."""

EACH_ORDER = 2
"""Requests for each: a status that acknowledges it, and a worker that is created or deleted, with
its event, each other time."""


def contested_by(*kinds: str) -> dict[str, str]:
    """These kinds must say that somebody else changes what they repair."""
    return dict.fromkeys(kinds, CONTESTED)


@asynccontextmanager
async def reverted_service(sick: Tenant) -> AsyncIterator[None]:
    """Another controller sets the selector of each service to its own taste, at once."""
    theirs = {"spec": {"selector": {"ray.io/node-type": "theirs"}}}

    async def react(user: Any, event: Any) -> None:
        service = event.current.object
        if service["spec"].get("selector", {}).get("ray.io/node-type") != "theirs":
            await user.merge_patch(SERVICES, sick.namespace, service["metadata"]["name"], theirs)

    with sick.reacting(SERVICES, react):
        yield


@asynccontextmanager
async def deleted_services(sick: Tenant) -> AsyncIterator[None]:
    """Another controller deletes each service, at once."""

    async def react(user: Any, event: Any) -> None:
        service = event.current.object
        with suppress(NotFound):
            await user.delete(SERVICES, sick.namespace, service["metadata"]["name"])

    with sick.reacting(SERVICES, react):
        yield


@asynccontextmanager
async def deleted_children(sick: Tenant) -> AsyncIterator[None]:
    """Another controller deletes what the kind creates, at once."""
    resource = CREATED[sick.column.creates]

    async def react(user: Any, event: Any) -> None:
        meta = event.current.object["metadata"]
        if "deletionTimestamp" not in meta:
            await user.delete(resource, sick.namespace, meta["name"])

    with sick.reacting(resource, react):
        yield


@asynccontextmanager
async def reverted_marks(sick: Tenant) -> AsyncIterator[None]:
    """Another controller takes all labels and annotations off what the kind creates, at once."""
    resource = CREATED[sick.column.creates]
    patch = {"metadata": {"labels": None, "annotations": None}}

    async def react(user: Any, event: Any) -> None:
        meta = event.current.object["metadata"]
        if "labels" in meta or "annotations" in meta:
            await user.merge_patch(resource, sick.namespace, meta["name"], patch)

    with sick.reacting(resource, react):
        yield


@asynccontextmanager
async def edited_children(sick: Tenant) -> AsyncIterator[None]:
    """Another controller edits what the kind creates, at once."""
    resource = CREATED[sick.column.creates]

    async def react(user: Any, event: Any) -> None:
        found = event.current.object
        *path, field, value = EDITS[found["kind"]]
        part = reduce(getitem, path, found)
        if part.get(field) != value:
            pointer = "/" + "/".join(map(str, (*path, field)))
            operation = {"op": "add", "path": pointer, "value": value}
            await user.json_patch(resource, sick.namespace, found["metadata"]["name"], [operation])

    with sick.reacting(resource, react):
        yield


@asynccontextmanager
async def reverted_metadata(sick: Tenant) -> AsyncIterator[None]:
    """Another controller takes every finalizer and annotation off the objects, at once."""
    resource = sick.column.resource
    patch = {"metadata": {"finalizers": None, "annotations": None}}

    async def react(user: Any, event: Any) -> None:
        meta = event.current.object["metadata"]
        if "finalizers" in meta or "annotations" in meta:
            await user.merge_patch(resource, sick.namespace, meta["name"], patch)

    with sick.reacting(resource, react):
        yield


@asynccontextmanager
async def reverted_status(sick: Tenant) -> AsyncIterator[None]:
    """A second operator writes its own view of the status, at once."""
    resource = sick.column.resource
    patch = {"status": {"reason": "Theirs", "conditions": []}}

    async def react(user: Any, event: Any) -> None:
        found = event.current.object
        if found.get("status", {}).get("conditions"):
            name = found["metadata"]["name"]
            await user.merge_patch(resource, sick.namespace, name, patch, subresource="status")

    with sick.reacting(resource, react):
        yield


@asynccontextmanager
async def mad_autoscaler(sick: Tenant) -> AsyncIterator[None]:
    """Something patches replicas and names workers that do not exist, every second."""
    rounds = itertools.count()

    async def scale() -> None:
        for cluster in sick.objects(RAYCLUSTERS):
            number = next(rounds)
            group = "/spec/workerGroupSpecs/0"
            operations = [
                {"op": "add", "path": f"{group}/replicas", "value": number % 2},
                {
                    "op": "add",
                    "path": f"{group}/scaleStrategy",
                    "value": {"workersToDelete": [f"nobody-{number}"]},
                },
            ]
            name = cluster["metadata"]["name"]
            await sick.user.json_patch(RAYCLUSTERS, sick.namespace, name, operations)

    async with sick.meanwhile(scale, every=1.0):
        yield


@asynccontextmanager
async def foreign_pods(sick: Tenant) -> AsyncIterator[None]:
    """Pods with Ray's labels that belong to nobody change 5,000 times a second.

    They do so for a second, while the healthy tenant creates its object.
    """
    store, rounds = sick.server.store, itertools.count()
    began = sick.world.loop.time()

    async def burst() -> None:
        if not STORM <= sick.world.loop.time() - began < STORM + 1:
            return
        for number in range(50):
            labels = {"ray.io/node-type": "worker", "ray.io/cluster": "nobodys"}
            meta = {"name": f"foreign-{number}", "namespace": sick.namespace, "labels": labels}
            pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {}}
            pod["metadata"] |= {"uid": meta["name"], "annotations": {"round": str(next(rounds))}}
            pod["spec"] = {"nodeName": "elsewhere", "containers": [{"name": "c", "image": "i"}]}
            store.put("pods", f"{sick.namespace}/{meta['name']}", pod)

    async with sick.meanwhile(burst, every=0.01):
        yield


@asynccontextmanager
async def terminating_namespace(sick: Tenant) -> AsyncIterator[None]:
    """The namespace is deleted while somebody's finalizer holds the objects; then it is back."""
    await _hold(sick, (HOLD,))
    await sick.user.delete(NAMESPACES, "", sick.namespace)
    yield
    await _hold(sick, ())
    await sick.create_namespace()


@asynccontextmanager
async def held_children(sick: Tenant) -> AsyncIterator[None]:
    """What the kind has created is deleted, and somebody's finalizer holds it."""
    resource = CREATED[sick.column.creates]
    await _hold(sick, (HOLD,), resource)
    for each in sick.objects(resource):
        await sick.user.delete(resource, sick.namespace, each["metadata"]["name"])
    yield
    await _hold(sick, (), resource)


async def _hold(
    sick: Tenant, holds: tuple[str, ...], resource: Resource[Any] | None = None
) -> None:
    """Have objects, by default those of the kind, held by these, besides finalizers of others."""
    resource = resource or sick.column.resource
    for each in sick.objects(resource):
        meta = each["metadata"]
        others = [name for name in meta.get("finalizers", ()) if name != HOLD]
        patch = {"metadata": {"finalizers": [*others, *holds]}}
        await sick.user.merge_patch(resource, sick.namespace, meta["name"], patch)


SICKNESSES = (
    Sickness(
        name="another controller reverts services",
        course=reverted_service,
        spares=UPGRADES | KAITO,  # they touch no service once it is there
        named=CONTESTED,
    ),
    Sickness(
        name="another controller deletes services",
        course=deleted_services,
        spares=UPGRADES,  # as above
        named="another writer keeps deleting Service .*configure or stop it",
        lingers=60.0,  # one is created once a minute
        slow=True,
    ),
    Sickness(
        name="another controller deletes what is created",
        course=deleted_children,
        spares=PODS_ONLY,  # pods have a row of their own
        named="another writer keeps deleting .*configure or stop it",
        requests=80,  # each cluster creates its pods and tells so before it is gone
        slow=True,
    ),
    Sickness(
        name="another controller takes off labels and annotations of what is created",
        course=reverted_marks,
        spares=PODS_ONLY,
        named=contested_by(*FIELDS, "RayCronJob", *KAITO),  # a RayJob has ended before
        slow=True,
    ),
    Sickness(
        name="another controller edits what is created",
        course=edited_children,
        spares=PODS_ONLY,
        named=contested_by(*FIELDS),  # the others leave such edits to their users
        slow=True,
    ),
    Sickness(
        name="another controller reverts metadata",
        course=reverted_metadata,
        named=contested_by("RayJob", "RayService", "Workspace"),  # whose marks are repaired
        lingers=60.0,  # a contested field is repaired once a minute
    ),
    Sickness(name="another operator writes the status", course=reverted_status),
    Sickness(
        name="an autoscaler goes mad",
        course=mad_autoscaler,
        only=CLUSTERS,  # the autoscaler writes to nothing else
        lasts=ORDERS,
        requests=EACH_ORDER * ORDERS,
    ),
    Sickness(
        name="5,000 events a second of foreign pods",
        course=foreign_pods,
        spares=KAITO,  # they watch none
        lasts=STORM + 10,
        slow=True,
    ),
    Sickness(
        name="a foreign finalizer holds what is created when it is deleted",
        course=held_children,
        # clusters name their pods, and a RayCronJob creates no job in place of a deleted one
        spares=PODS_ONLY | {"RayCronJob"},
        late=True,
        named="ChildHeld: .* is being deleted since .*example.com/hold.*remove it by hand",
    ),
    Sickness(
        name="the namespace is terminating", course=terminating_namespace, late=True, lasts=120
    ),
)
