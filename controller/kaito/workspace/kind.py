"""The Workspace kind for the runtime, and the collector of what gone Workspaces have left."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.metadata import OWNER_UID
from controller.apimachinery.validation import Problem
from controller.kaito.api.definitions import WORKSPACE_FIELDS, is_left_as_it_is, template_fields
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.lookups.huggingface import WorkspaceLookups
from controller.kaito.workspace.edits import refused_edit
from controller.kaito.workspace.observation import (
    Goal,
    WorkspaceObservation,
    read_goal,
    remember,
)
from controller.kaito.workspace.observe import WorkspaceSources, observe_workspace
from controller.kaito.workspace.plan import plan_workspace
from controller.kaito.workspace.status import current_status
from controller.kaito.workspace.watches import claim_workspace_keys, watches
from controller.kube.client import Client
from controller.kube.errors import KubeError, NotFound
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import Resource
from controller.runtime.definitions import DefinitionReader, remedy
from controller.runtime.kind import CacheReader, Kind, Owned
from controller.runtime.plan import AnyExternalSource, Event, Failure, Plan, StatusPatch

RELIED_ON: Final = (
    *WORKSPACE_FIELDS,
    *(f"status.{field}" for field in ("conditions", "state", "targetNodeCount")),
)
"""All fields of the specification, which are hashed, and those of the status by which nodes are
counted and a served model is known.

A specification that lacks one asks for something else: its server or job would be re-created, and
its nodes may differ. The API server drops fields that its definition lacks, so a Workspace is left
unchanged, and is not written, until its definition certainly has all of them.
"""

_CONSEQUENCE: Final = (
    "Workspaces are left as they are: nothing is created, changed or deleted for them, and what "
    "serves continues"
)
_REMEDY: Final = remedy("manta crds --kind workspace")


class WorkspaceKind(Kind["WorkspaceObservation"]):
    """Gives a model its nodes, and runs it there. No other process has the name of this one."""

    primary = WORKSPACES
    optional = True

    def __init__(
        self,
        options: KaitoOptions | None = None,
        process: str = "",
        lookups: WorkspaceLookups | None = None,
    ) -> None:
        self.external_source: AnyExternalSource | None = lookups
        self._options = options or KaitoOptions()
        self.owned: tuple[Owned[Any], ...] = watches(self._options)
        reader = DefinitionReader(WORKSPACES, lambda _schema: RELIED_ON, _CONSEQUENCE, _REMEDY)
        self._sources = WorkspaceSources(
            SpecificationMemo(self._read),
            self._options,
            reader,
            template_fields("inference", "template"),
            process or secrets.token_hex(4),
            lookups,
        )

    def observe(self, key: str, reads: CacheReader) -> WorkspaceObservation | None:
        """Return everything that the plan depends on; None if the Workspace is gone."""
        return observe_workspace(key, reads, self._sources)

    def problem(self, observation: WorkspaceObservation) -> Problem | None:
        """Return why the specification is refused, None if it is valid."""
        goal = observation.goal
        return goal if isinstance(goal, Problem) else observation.refused

    def edit_problem(self, before: Workspace, after: Workspace) -> Problem | None:
        """Return what an edit changes that must not change; None if it may be tried."""
        goals = [self._read(each) for each in (before, after)]
        valid = [each for each in goals if not isinstance(each, Problem)]
        return refused_edit(before, *valid) if len(valid) == len(goals) else None

    def plan(self, observation: WorkspaceObservation, now: datetime) -> Plan:
        """Return the plan for the Workspace."""
        return remember(plan_workspace(observation, now), observation)

    def status_after(
        self,
        observation: WorkspaceObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the current status; that of a deletion stays, what is left as it is gets none."""
        if is_left_as_it_is(observation.workspace, observation.definition):
            return plan.status
        return current_status(observation, now, failures)

    def _read(self, workspace: Workspace) -> Goal | Problem:
        return read_goal(workspace, self._options)


INTERVAL: Final = 60.0
"""Seconds between two rounds. Two of them in succession must find the Workspace gone."""

_METADATA: Final = msgspec.structs.replace(WORKSPACES, view=KubeObject)
_log = structlog.stdlib.get_logger("manta.workspaces")


class OrphanCollector:
    """Deletes NodeClaims and NodePools of Workspaces that no longer exist. A `manager.Runnable`.

    They are cluster-scoped, so the garbage collector does not know their owner. The finalizer of a
    Workspace deletes them; if a user has removed it, the nodes would cost money for ever.

    An object is deleted if it names the uid of its Workspace, and two live reads of that Workspace,
    a round apart, have found nothing or another uid. An error leaves it as it is, and so does a
    namespace that is not served: the operator of that namespace collects there.
    """

    name = "orphans of workspaces"

    def __init__(
        self,
        client: Client,
        reads: CacheReader,
        keys: Callable[[Resource[Any]], Iterable[str]],
        record: Callable[[Resource[Any], ObjectMeta, Event], None],
        namespaces: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._reads = reads
        self._keys = keys
        self._record = record
        self._namespaces = namespaces
        self._suspects: frozenset[str] = frozenset()
        self._stopped = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Collect once in each interval until stopped."""
        ready()
        while not self._stopped.is_set():
            try:
                async with asyncio.timeout(INTERVAL):
                    await self._stopped.wait()
            except TimeoutError:
                await self._collect()

    def stop(self) -> None:
        """Stop after the request that is under way."""
        self._stopped.set()

    async def _collect(self) -> None:
        """Delete what was suspected in the last round too; suspect the rest."""
        live: dict[str, str | None] = {}
        suspects: set[str] = set()
        found = [*self._unexplained(NODE_CLAIMS), *self._unexplained(NODE_POOLS)]
        for resource, meta in found:
            (key,) = claim_workspace_keys(KubeObject(metadata=meta))
            if self._stopped.is_set():
                return
            if key not in live:
                live[key] = await self._live_uid(key)
            if live[key] in {None, _owner(meta)}:
                continue
            if meta.uid in self._suspects:
                await self._delete(resource, meta, key)
            suspects.add(meta.uid)
        self._suspects = frozenset(suspects)

    def _unexplained(self, resource: Resource[Any]) -> Iterator[tuple[Resource[Any], ObjectMeta]]:
        """Yield objects of Workspaces that the cache does not show."""
        if not self._reads.serves(WORKSPACES):
            return
        for name in self._keys(resource):
            found = self._reads.get(resource, name)
            if found is None or found.metadata.terminating or not _owner(found.metadata):
                continue
            keys = claim_workspace_keys(found)
            if len(keys) != 1 or not self._is_served(keys[0]):
                continue
            workspace = self._reads.get(WORKSPACES, keys[0])
            if workspace is None or workspace.metadata.uid != _owner(found.metadata):
                yield resource, found.metadata

    def _is_served(self, key: str) -> bool:
        return not self._namespaces or key.rpartition("/")[0] in self._namespaces

    async def _live_uid(self, key: str) -> str | None:
        """Return the uid of a Workspace, empty if it does not exist, None if that is not known."""
        namespace, _, name = key.rpartition("/")
        try:
            return (await self._client.get(_METADATA, namespace, name)).metadata.uid or None
        except NotFound:
            return ""
        except KubeError as error:
            _log.warning("workspace.unknown", key=key, error=str(error))
            return None

    async def _delete(self, resource: Resource[Any], meta: ObjectMeta, key: str) -> None:
        try:
            await self._client.delete(resource, "", meta.name, uid=meta.uid)
        except NotFound:
            return
        except KubeError as error:
            _log.warning("orphan.not_deleted", name=meta.name, workspace=key, error=str(error))
            return
        note = f"deleted {resource.kind} {meta.name}: its Workspace {key} no longer exists"
        _log.warning("orphan.deleted", kind=resource.kind, name=meta.name, workspace=key)
        self._record(resource, meta, Event("Warning", "OrphanDeleted", "Delete", note))


def _owner(meta: ObjectMeta) -> str:
    """Return the uid of the Workspace; empty of what Kaito has made, which does not name it."""
    return (meta.labels or {}).get(OWNER_UID, "")
