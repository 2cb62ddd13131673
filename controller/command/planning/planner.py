"""Plans for objects on one API server: as manifests would make them, or as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.object_schema import by_document, read_schemas
from controller.apimachinery.patches import difference
from controller.apimachinery.validation import Problem
from controller.command.manifests import (
    is_of_shape,
    is_strict,
    refusals,
    unserved_version,
)
from controller.command.planning.dry_run import DryRun, Refusal, ask_server, with_created_kinds
from controller.command.planning.net_changes import (
    ObjectPlan,
    edits_of,
    name_patterns,
    net_changes,
)
from controller.command.planning.snapshot import Snapshot, replaced_objects
from controller.command.planning.upgrades import (
    RollingRecorder,
    RolloutPlan,
    RolloutRecorder,
    rolling_update,
)
from controller.kube.client import Client
from controller.kube.errors import Forbidden, KubeError, NotFound, PathNotFound, StatusError
from controller.kube.resources import PODS, Resource
from controller.kube.source import openapi_documents
from controller.kube.transport import JSON, MERGE_PATCH
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayservice import RAYSERVICES
from controller.runtime.kind import InstalledSchema, Kind, ObjectUnreadable
from controller.runtime.plan import Create, Target

# The requests of `manta plan`: lists, and a server-side dry run of the manifest.
#
# The dry run applies the server's own defaults, pruning and refusals, which are part of the plan.

Json = dict[str, Any]

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_DRY_RUN: Final = {
    "dryRun": "All",
    "fieldManager": "manta-plan",
}


async def list_objects(client: Client, resource: Resource[Any], namespace: str) -> list[Json]:
    """Return all objects of a namespace, or of all namespaces if it is empty, by name."""
    try:
        listed: Json = await client.request_json("GET", resource.path(namespace))
    except PathNotFound:
        return []  # the server lacks this API
    items: list[Json] = listed.get("items") or []
    return sorted(items, key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]))


async def dry_run_apply(
    client: Client,
    resource: Resource[Any],
    namespace: str,
    manifest: Json,
    now: Json | None,
    *,
    strict: bool = True,
) -> Json:
    """Return the object as `kubectl apply` of the manifest would leave it; `now` is as it is.

    Unknown fields are refused if `strict`, as kubectl has it; else dropped.

    Raises:
        StatusError: the API server would refuse it, in its own words.
    """
    applied = replace(resource, version=_version(manifest, resource))
    query = _DRY_RUN | {"fieldValidation": "Strict" if strict else "Ignore"}
    if now is None:
        answer = await client.request_json(
            "POST", applied.path(namespace), query=query, body=manifest, content_type=JSON
        )
    else:
        path = applied.path(namespace, manifest["metadata"]["name"])
        patch = three_way_patch(now, manifest)
        answer = await client.request_json(
            "PATCH", path, query=query, body=patch, content_type=MERGE_PATCH
        )
    return {**answer, "apiVersion": resource.api_version}


def _version(manifest: Json, resource: Resource[Any]) -> str:
    """Return the version in which kubectl applies a manifest; all versions have the same fields."""
    group, _, version = str(manifest.get("apiVersion")).partition("/")
    return version if group == resource.group and version else resource.version


async def list_children(
    client: Client, kinds: Iterable[Kind[Any]], namespace: str
) -> dict[Resource[Any], list[Json]]:
    """Return all objects in the namespace that kinds may own, by resource, without missing APIs."""
    found: dict[Resource[Any], list[Json]] = {}
    for owned in {each.resource: each for kind in kinds for each in kind.owned}.values():
        query = {"labelSelector": owned.label_selector} if owned.label_selector else {}
        try:
            listed: Json = await client.request_json(
                "GET", owned.resource.path(namespace), query=query
            )
        except PathNotFound:
            continue  # the server lacks this API
        except Forbidden:
            if owned.optional:
                continue  # as the operator does without it
            raise
        found[owned.resource] = listed.get("items") or []
    return found


def three_way_patch(now: Json, manifest: Json) -> Json:
    """Return the merge patch of `kubectl apply`: it sets what the file has, removes what it had."""
    annotations: Mapping[str, str] = now["metadata"].get("annotations") or {}
    last = annotations.get(_LAST_APPLIED)
    # As kubectl completes it before it compares; or what others have annotated would be removed.
    metadata: Json = {"annotations": {}, "namespace": now["metadata"].get("namespace")}
    wanted = manifest | {"metadata": metadata | manifest["metadata"]}
    if last is not None:
        wanted = _with_removals(msgspec.json.decode(last), wanted)
    wanted = {key: value for key, value in wanted.items() if key not in {"status", "kind"}}
    return difference(now, wanted)


def _with_removals(last: Any, manifest: Json) -> Json:
    result = dict(manifest)
    for key, value in last.items():
        if key not in manifest:
            result[key] = None
        elif isinstance(value, dict) and isinstance(manifest[key], dict):
            result[key] = _with_removals(value, manifest[key])
    return result


async def installed_schemas(
    client: Client, resources: Iterable[Resource[Any]]
) -> dict[Resource[Any], InstalledSchema]:
    """Return the published schemas; those that cannot be read are left out."""
    try:
        urls = await openapi_documents(client)
        found = [
            await read_schemas(client, group, urls.get(document, ""))
            for document, group in by_document(resources).items()
        ]
    except KubeError:
        return {}
    return {each: InstalledSchema(schema) for group in found for each, schema in group.items()}


_PATIENCE: Final = timedelta(days=1)
"""Longer than any upgrade waits between its steps."""

_NOTED_CONDITIONS: Final = {
    ("DefinitionComplete", "False"),
    ("DeletionHeld", "True"),
    ("FeaturesSupported", "False"),
    ("FieldsKnown", "False"),
    ("OptionsInEffect", "False"),
    ("PodsUpToDate", "False"),
    ("UpgradeInProgress", "True"),
    ("Upgrading", "True"),
}
"""Types and statuses of the conditions that become a note."""


class Planner:
    """Finds out what the operator would do now, without writing anything.

    The client gets dry runs and lists only; `kinds` are all served kinds.
    """

    def __init__(self, client: Client, kinds: Iterable[Kind[Any]], now: datetime) -> None:
        self._client = client
        self._kinds = {kind.primary.kind: kind for kind in kinds}
        self._now = now
        self._schemas: Mapping[Resource[Any], InstalledSchema] | None = None
        self._children: dict[tuple[Resource[Any], str], dict[Resource[Any], list[Json]]] = {}

    async def for_manifest(self, manifest: Json, default_namespace: str) -> ObjectPlan:
        """Plan the consequences of applying the manifest.

        Raises:
            KubeError: the server could not be reached. A refusal is the plan's `problem`.
            KeyError: no served kind has this name.
        """
        kind = self._kinds[manifest["kind"]]
        resource = kind.primary
        meta: Json = manifest.get("metadata") or {}
        namespace: str = meta.get("namespace") or default_namespace
        name: str = meta.get("name") or ""
        present = None
        with suppress(NotFound):
            present = await self._client.get_raw(resource, namespace, name) if name else None
        try:
            wanted = await dry_run_apply(self._client, resource, namespace, manifest, present)
        except StatusError as error:
            problem = await self._refused(kind, namespace, manifest, present, error)
            return _without_effect(resource, namespace, name, present, problem)
        wanted["metadata"]["generation"] = _generation(present, wanted)
        return await self._plan(kind, present, wanted)

    async def _refused(
        self,
        kind: Kind[Any],
        namespace: str,
        manifest: Json,
        present: Json | None,
        error: StatusError,
    ) -> str:
        """Return all that is wrong with a manifest: the server stops at the first kind of error."""
        unserved = await unserved_version(self._client, kind.primary, manifest, error)
        if unserved:
            return unserved
        installed = (await self._installed_schemas()).get(kind.primary)
        schema = installed.schema if installed is not None else None
        told = refusals(error, schema)
        if is_strict(error):
            try:
                at = self._client, kind.primary, namespace, manifest, present
                await dry_run_apply(*at, strict=False)
            except StatusError as other:
                told += refusals(error := other, schema)
        if is_of_shape(error):
            return ". Also ".join(told)
        own = await self._own_problems(kind, namespace, manifest)
        fields = [each.field for each in own]
        told = [each for each in told if not _is_among(each.partition(": ")[0], fields)]
        return ". Also ".join([*told, *map(str, own)])

    async def _own_problems(
        self, kind: Kind[Any], namespace: str, manifest: Json
    ) -> tuple[Problem, ...]:
        """Return what the operator would say of an object that is as the manifest."""
        metadata = {"name": "", **mapping(manifest.get("metadata")), "namespace": namespace}
        key = f"{namespace}/{metadata['name']}"
        kinds = with_created_kinds(kind, self._kinds.values())
        snapshot = await self._snapshot(kinds, manifest | {"metadata": metadata})
        try:
            seen = kind.observe(key, snapshot)
        except ObjectUnreadable:
            return ()
        problem = kind.problem(seen) if seen is not None else None
        return problem.all if problem is not None else ()

    async def for_existing(self, namespace: str) -> list[ObjectPlan]:
        """Plan for the objects as they are; an empty namespace means all.

        Raises:
            KubeError: the server could not be reached.
        """
        return [
            await self._plan(kind, obj, obj)
            for kind in self._kinds.values()
            for obj in await list_objects(self._client, kind.primary, namespace)
        ]

    async def _plan(self, kind: Kind[Any], present: Json | None, wanted: Json) -> ObjectPlan:
        meta = wanted["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        kinds = with_created_kinds(kind, self._kinds.values())
        snapshot = await self._snapshot(kinds, wanted)
        try:
            seen = kind.observe(key, snapshot)
        except ObjectUnreadable as error:
            return _without_effect(
                kind.primary, meta["namespace"], meta["name"], present, str(error)
            )
        problem = kind.problem(seen) if seen is not None else None
        recorder = _recorder(snapshot, present, wanted)
        dry_run = DryRun(snapshot, self._now, recorder)
        if kind.primary is RAYSERVICES:
            dry_run.reconcile_with_created(kinds, key, patience=_PATIENCE)
        elif present is None or recorder is not None:
            dry_run.reconcile_with_created(kinds, key)
        else:
            dry_run.reconcile(kind, key)
        target = Target(kind.primary, meta["namespace"], meta["name"])
        verdict = await ask_server(self._client, dry_run, target if present is None else None)
        next_job = await self._refusals_of_next_job(kind, key, snapshot)
        notes = () if problem else dict.fromkeys(_notes(kind, key, dry_run))
        primaries = [each.primary for each in kinds]
        under_way = set[str]()
        if present is wanted:
            objects = (obj for found in dry_run.before.values() for obj in found.values())
            clusters = dry_run.before.get(RAYCLUSTERS, {}).values()
            under_way = replaced_objects(wanted, clusters, objects)
        return ObjectPlan(
            kind=kind.primary.kind,
            namespace=meta["namespace"],
            name=meta["name"],
            exists=present is not None,
            problem=str(problem or ""),
            edits=edits_of(present, wanted),
            items=net_changes(dry_run, primaries, under_way),
            rollout=_rollout(recorder, dry_run, primaries),
            rolling=recorder.rolling() if isinstance(recorder, RollingRecorder) else None,
            refusals=(*verdict.refusals, *next_job),
            notes=(*notes, *verdict.notes),
            outlook=() if problem else tuple(dict.fromkeys(self._outlook(kinds, wanted, dry_run))),
        )

    def _outlook(self, kinds: Sequence[Kind[Any]], obj: Json, dry_run: DryRun) -> Iterator[str]:
        """Yield what may happen later to the object, and to those of other kinds that it owns."""
        uid, snapshot = obj["metadata"].get("uid"), dry_run.snapshot
        contents = snapshot.contents()
        for kind in kinds:
            for key, each in contents.get(kind.primary, {}).items():
                owners = each["metadata"].get("ownerReferences") or ()
                if uid in {each["metadata"].get("uid"), *(owner["uid"] for owner in owners)}:
                    seen = kind.observe(key, snapshot)
                    yield from kind.outlook(seen, self._now) if seen is not None else ()

    async def _refusals_of_next_job(
        self, kind: Kind[Any], key: str, snapshot: Snapshot
    ) -> tuple[Refusal, ...]:
        """Return what the API server would refuse of the RayJob that a RayCronJob creates next."""
        seen = kind.observe(key, snapshot) if kind.primary is RAYCRONJOBS else None
        wait = kind.plan(seen, self._now).requeue_after if seen is not None else None
        if wait is None:
            return ()
        due = kind.plan(seen, self._now + timedelta(seconds=wait + 1))
        found: list[Refusal] = []
        for write in (write for stage in due.stages for write in stage):
            if isinstance(write, Create):
                job = await self.for_manifest(dict(write.body), write.target.namespace)
                if job.problem:
                    found.append(Refusal(kind=job.kind, name=job.name, message=job.problem))
                found += job.refusals
        return tuple(found)

    async def _snapshot(self, kinds: Sequence[Kind[Any]], wanted: Json) -> Snapshot:
        resource = kinds[0].primary
        namespace = wanted["metadata"]["namespace"]
        place = resource, namespace
        if place not in self._children:
            self._children[place] = await list_children(self._client, kinds, namespace)
        schemas = await self._installed_schemas()
        snapshot = Snapshot(kinds, now=self._now, schemas=schemas)
        for child, objects in self._children[place].items():
            snapshot.add(child, objects)
        snapshot.add(resource, [wanted])
        return snapshot

    async def _installed_schemas(self) -> Mapping[Resource[Any], InstalledSchema]:
        if self._schemas is None:
            resources = {PODS, *(each.primary for each in self._kinds.values())}
            self._schemas = await installed_schemas(self._client, resources)
        return self._schemas


def _is_among(field: str, fields: Iterable[str]) -> bool:
    """Return whether a field, or a part of it, is among the fields."""
    return any(each == field or each.startswith((f"{field}.", f"{field}[")) for each in fields)


def _without_effect(
    resource: Resource[Any], namespace: str, name: str, present: Json | None, problem: str
) -> ObjectPlan:
    """Return the plan of an object that would be refused."""
    return ObjectPlan(
        kind=resource.kind,
        namespace=namespace,
        name=name,
        exists=present is not None,
        problem=problem,
    )


def _rollout(
    recorder: RollingRecorder | RolloutRecorder | None,
    dry_run: DryRun,
    primaries: list[Resource[Any]],
) -> RolloutPlan | None:
    """Return what was recorded, with the generated names as patterns; None without steps."""
    if not isinstance(recorder, RolloutRecorder) or not (found := recorder.rollout()).steps:
        return None
    return found.renamed(name_patterns(dry_run, primaries))


def _recorder(
    snapshot: Snapshot, present: Json | None, wanted: Json
) -> RollingRecorder | RolloutRecorder | None:
    """Return a recorder of what happens to clusters, or pods, that are replaced in an order.

    A new fleet creates all of its copies at once, and a new cluster its pods: there is no order.
    """
    contents, kind = snapshot.contents(), wanted.get("kind")
    pods = list(contents.get(PODS, {}).values())
    if kind == RAYSERVICES.kind or (kind == RAYCLUSTERFLEETS.kind and present is not None):
        return RolloutRecorder(wanted, list(contents[RAYCLUSTERS].values()), pods)
    if kind != RAYCLUSTERS.kind or present is None or (rolling := rolling_update(wanted)) is None:
        return None
    return RollingRecorder(wanted, rolling, pods)


def _notes(kind: Kind[Any], key: str, dry_run: DryRun) -> Iterator[str]:
    status: Json = (dry_run.snapshot.raw(kind.primary, key) or {}).get("status") or {}
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) in _NOTED_CONDITIONS:
            yield str(condition.get("message"))
    for event in dry_run.events:
        if event.type == "Warning":
            yield event.note


def _generation(present: Json | None, wanted: Json) -> int:
    """Return the generation after the write; a server-side dry run does not always increase it."""
    if present is None:
        return 1
    old: int = present["metadata"].get("generation", 1)
    return old + (present.get("spec") != wanted.get("spec"))
