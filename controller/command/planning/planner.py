"""Plans for RayClusters on one API server: as manifests would make them, or as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.command.planning import source
from controller.command.planning.outcome import ClusterPlan, edits_of, items_of
from controller.command.planning.rehearsal import rehearse
from controller.command.planning.snapshot import Snapshot
from controller.kube.errors import StatusError
from controller.ray.api import RAYCLUSTERS, Problem
from controller.ray.api.raycluster import conditions_of
from controller.ray.cluster import RayClusterKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.command.planning.rehearsal import Rehearsal
    from controller.kube.client import Client
    from controller.kube.resources import Resource
    from controller.ray.cluster import ClusterSettings

Json = dict[str, Any]

_WORTH_A_NOTE: Final = ("FeaturesSupported", "PodsUpToDate")
"""Conditions that, when False, tell what a user would not expect."""


class Planner:
    """Rehearses what the operator would do. Writes nothing.

    Args:
        client: access to the API server; it is asked for dry runs and lists only.
        settings: as the operator has them.
        now: the time at which everything would happen.
    """

    def __init__(self, client: Client, settings: ClusterSettings, now: datetime) -> None:
        self._client = client
        self._kind = RayClusterKind(settings)
        self._now = now
        self._children: dict[str, dict[Resource[Any], list[Json]]] = {}

    async def for_manifest(self, manifest: Json, default_namespace: str) -> ClusterPlan:
        """What applying the manifest would lead to.

        Raises:
            KubeError: the server could not be asked. What it refuses is the plan's `problem`.
        """
        meta: Json = manifest.get("metadata") or {}
        namespace: str = meta.get("namespace") or default_namespace
        name: str = meta.get("name") or ""
        present = await source.present(self._client, namespace, name) if name else None
        try:
            wanted = await source.applied(self._client, namespace, manifest, present)
        except StatusError as error:
            exists = present is not None
            return ClusterPlan(namespace=namespace, name=name, exists=exists, problem=str(error))
        wanted["metadata"]["generation"] = _generation(present, wanted)
        return await self._rehearse(present, wanted)

    async def for_existing(self, namespace: str) -> list[ClusterPlan]:
        """What would be done about the clusters as they are; namespace "" means all.

        Raises:
            KubeError: the server could not be asked.
        """
        found = await source.existing(self._client, namespace)
        return [await self._rehearse(cluster, cluster) for cluster in found]

    async def _rehearse(self, present: Json | None, wanted: Json) -> ClusterPlan:
        meta = wanted["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        snapshot = await self._snapshot(wanted)
        before = snapshot.contents()
        seen = self._kind.observe(key, snapshot)
        problem = str(seen.design) if seen is not None and isinstance(seen.design, Problem) else ""
        rehearsal = rehearse(self._kind, key, snapshot, self._now)
        return ClusterPlan(
            namespace=meta["namespace"],
            name=meta["name"],
            exists=present is not None,
            problem=problem,
            edits=edits_of(present, wanted),
            items=items_of(before, snapshot.contents(), rehearsal),
            notes=() if problem else tuple(dict.fromkeys(_notes(key, snapshot, rehearsal))),
        )

    async def _snapshot(self, cluster: Json) -> Snapshot:
        namespace = cluster["metadata"]["namespace"]
        if namespace not in self._children:
            self._children[namespace] = await source.children(self._client, self._kind, namespace)
        snapshot = Snapshot(self._kind, now=self._now)
        snapshot.add(RAYCLUSTERS, [cluster])
        for resource, objects in self._children[namespace].items():
            snapshot.add(resource, objects)
        return snapshot


def _notes(key: str, snapshot: Snapshot, rehearsal: Rehearsal) -> Iterator[str]:
    cluster = snapshot.get(RAYCLUSTERS, key)
    for condition in conditions_of(cluster) if cluster is not None else ():
        if condition.get("type") in _WORTH_A_NOTE and condition.get("status") == "False":
            yield str(condition.get("message"))
    for event in rehearsal.events:
        if event.type == "Warning":
            yield event.note


def _generation(present: Json | None, wanted: Json) -> int:
    """A dry run does not always count the generation up; what would be written does."""
    if present is None:
        return 1
    old: int = present["metadata"].get("generation", 1)
    return old + (present.get("spec") != wanted.get("spec"))
