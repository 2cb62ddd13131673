"""Plans for objects on one API server: as manifests would make them, or as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.command.planning import source
from controller.command.planning.outcome import ObjectPlan, edits_of, items_of
from controller.command.planning.rehearsal import Rehearsal, rehearse
from controller.command.planning.snapshot import Snapshot
from controller.kube.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from controller.command.planning.subjects import Subject
    from controller.kube.client import Client
    from controller.kube.resources import Resource

Json = dict[str, Any]

_WORTH_A_NOTE: Final = ("FeaturesSupported", "PodsUpToDate")
"""Conditions that, when False, tell what a user would not expect."""


class Planner:
    """Rehearses what the operator would do. Writes nothing.

    Args:
        client: access to the API server; it is asked for dry runs and lists only.
        subjects: what can be planned for, by kind, with settings as the operator has them.
        now: the time at which everything would happen.
    """

    def __init__(self, client: Client, subjects: Mapping[str, Subject], now: datetime) -> None:
        self._client = client
        self._subjects = subjects
        self._now = now
        self._children: dict[tuple[str, str], dict[Resource[Any], list[Json]]] = {}

    async def for_manifest(self, manifest: Json, default_namespace: str) -> ObjectPlan:
        """What applying the manifest would lead to.

        Raises:
            KubeError: the server could not be asked. What it refuses is the plan's `problem`.
            KeyError: the manifest is of no kind that can be planned for.
        """
        subject = self._subjects[manifest["kind"]]
        resource = subject.kind.primary
        meta: Json = manifest.get("metadata") or {}
        namespace: str = meta.get("namespace") or default_namespace
        name: str = meta.get("name") or ""
        present = await source.present(self._client, resource, namespace, name) if name else None
        try:
            wanted = await source.applied(self._client, resource, namespace, manifest, present)
        except StatusError as error:
            return ObjectPlan(
                kind=resource.kind,
                namespace=namespace,
                name=name,
                exists=present is not None,
                problem=str(error),
            )
        wanted["metadata"]["generation"] = _generation(present, wanted)
        return await self._rehearse(subject, present, wanted)

    async def for_existing(self, namespace: str) -> list[ObjectPlan]:
        """What would be done about the objects as they are; namespace "" means all.

        Raises:
            KubeError: the server could not be asked.
        """
        return [
            await self._rehearse(subject, obj, obj)
            for subject in self._subjects.values()
            for obj in await source.existing(self._client, subject.kind.primary, namespace)
        ]

    async def _rehearse(self, subject: Subject, present: Json | None, wanted: Json) -> ObjectPlan:
        meta = wanted["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        snapshot = await self._snapshot(subject, wanted)
        before = snapshot.contents()
        seen = subject.kind.observe(key, snapshot)
        problem = subject.problem(seen) if seen is not None else ""
        rehearsal = Rehearsal()
        rehearse(subject.kind, key, snapshot, self._now, rehearsal)
        if present is None:
            self._play_on(subject, key, snapshot, before, rehearsal)
        return ObjectPlan(
            kind=subject.kind.primary.kind,
            namespace=meta["namespace"],
            name=meta["name"],
            exists=present is not None,
            problem=problem,
            edits=edits_of(present, wanted),
            items=items_of(before, snapshot.contents(), rehearsal),
            notes=()
            if problem
            else tuple(dict.fromkeys(_notes(subject, key, snapshot, rehearsal))),
        )

    def _play_on(
        self,
        subject: Subject,
        key: str,
        snapshot: Snapshot,
        before: Mapping[Resource[Any], Mapping[str, Json]],
        rehearsal: Rehearsal,
    ) -> None:
        """What follows when the parts of a new object are made and everything in them runs."""
        for _ in ("made", "running"):
            for part in subject.parts:
                for made in snapshot.contents()[part.primary].keys() - before[part.primary].keys():
                    rehearse(part, made, snapshot, self._now, rehearsal)
            snapshot.run_pods()
        if subject.parts:
            rehearse(subject.kind, key, snapshot, self._now, rehearsal)

    async def _snapshot(self, subject: Subject, wanted: Json) -> Snapshot:
        resource = subject.kind.primary
        namespace = wanted["metadata"]["namespace"]
        place = resource.kind, namespace
        if place not in self._children:
            self._children[place] = await source.children(self._client, subject.kinds, namespace)
        snapshot = Snapshot(subject.kinds, now=self._now)
        for child, objects in self._children[place].items():
            snapshot.add(child, objects)
        snapshot.add(resource, [wanted])
        return snapshot


def _notes(subject: Subject, key: str, snapshot: Snapshot, rehearsal: Rehearsal) -> Iterator[str]:
    status: Json = (snapshot.raw(subject.kind.primary, key) or {}).get("status") or {}
    for condition in status.get("conditions") or ():
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
