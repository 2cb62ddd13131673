"""Doubles for single parts of the runtime: expectations over a fed store, a scripted client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from controller.apimachinery.metadata import index_by_owner
from controller.kube.errors import Status, StatusError, error_for
from controller.kube.objects import ConfigMap, KubeObject, ObjectMeta, OwnerReference
from controller.kube.resources import CONFIG_MAPS, Resource
from controller.runtime.execution import LookupReader, PlanExecution, PlanOutcome, Result
from controller.runtime.executor import BATCH, Executor
from controller.runtime.expectation import ObjectReference
from controller.runtime.expectations import Expectations, ExpectationStatistics
from controller.runtime.failed_groups import WriteOutcome, WriteResult
from controller.runtime.plan import Create, Delete, MergePatch, Plan, Target, Write
from controller.runtime.record import Owner
from controller.runtime.writer import Writer
from informers import Store

__all__ = ["BATCH", "Owner", "Result", "WriteOutcome"]
"""What the conformance tests need of the runtime's own modules."""

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = Owner("uid-owner", "default/f", "widgets")


def child(
    name: str = "a",
    revision: int = 1,
    *,
    uid: str = "",
    owner: str = OWNER.uid,
    terminating: bool = False,
    labels: dict[str, str] | None = None,
    data: dict[str, str] | None = None,
) -> ConfigMap:
    reference = OwnerReference(
        api_version="test.dev/v1", kind="Widget", name="f", uid=owner, controller=True
    )
    return ConfigMap(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=uid or f"uid-{name}",
            resource_version=str(revision),
            labels=labels or {"widget": "f"},
            owner_references=(reference,) if owner else (),
            deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None,
        ),
        data=data,
    )


def target(name: str = "a", scope: str = "children") -> Target:
    return Target(CONFIG_MAPS, "default", name, scope)


def create(name: str = "a", *, owner: str = OWNER.uid) -> Create:
    reference = {"apiVersion": "test.dev/v1", "kind": "Widget", "name": "f", "uid": owner}
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"widget": "f"},
            "ownerReferences": [{**reference, "controller": True}],
        }
    }
    return Create(target(name), body)


def delete(name: str = "a", *, uid: str = "") -> Delete:
    return Delete(target(name), uid or f"uid-{name}")


def patch(name: str = "a", *, revision: str | None = None, **data: str) -> MergePatch:
    return MergePatch(target(name), f"uid-{name}", {"data": data}, resource_version=revision)


class Book:
    """Reads that include own writes, over a store that a test feeds as an informer would.

    It is the only way of the conformance tests to them: `show`, `remove`, `relist`, `bookmark` and
    `reset` feed the store; `sent`, `done`, `lost` and so on are writes and their answers; `names`,
    `live`, `get`, `pending` and `warnings` are what a planner reads.
    """

    def __init__(self, *, selective: bool = True, revision: str = "1") -> None:
        self.time = 0.0
        self.store: Store[ConfigMap] = Store({"owner": index_by_owner})
        self.store.replace([], revision)
        self.stores: dict[Resource[Any], Store[Any]] = {CONFIG_MAPS: self.store}
        self.expectations = Expectations(now=self.now, wall=lambda: NOW)
        self.expectations.overlay(CONFIG_MAPS).add_cache(
            "", self.store, {"owner": index_by_owner}, selective=selective
        )
        self.woken: list[Owner] = []
        self.expectations.enqueue = self.woken.append
        self.signs: list[str] = []
        self.expectations.on_rewound = lambda _resource, sign: self.signs.append(sign)
        self.expectations.add_owner(OWNER)

    def now(self) -> float:
        return self.time

    def show(self, obj: KubeObject, resource: Resource[Any] = CONFIG_MAPS) -> None:
        self.stores[resource].put(obj)
        self.expectations.overlay(resource).observe_change(obj.metadata.key)
        self.bookmark(int(obj.metadata.resource_version), resource)

    def remove(self, obj: ConfigMap, revision: int) -> None:
        """A DELETED event, or an absence from a list."""
        self.store.remove(obj.metadata.key, str(revision))
        self.expectations.observe_delete(CONFIG_MAPS, obj)
        self.bookmark(revision)

    def relist(self, objects: list[ConfigMap], revision: int) -> None:
        """The whole store is replaced: only what differs is told."""
        before = {obj.metadata.key: obj for obj in self.store.list()}
        self.store.replace(objects, str(revision))
        after = {obj.metadata.key: obj for obj in objects}
        for key, obj in before.items():
            if key not in after:
                self.expectations.observe_delete(CONFIG_MAPS, obj)
        for key in after:
            self.expectations.overlay(CONFIG_MAPS).observe_change(key)
        self.bookmark(revision)

    def bookmark(self, revision: int, resource: Resource[Any] = CONFIG_MAPS) -> None:
        store = self.stores[resource]
        store.advance(str(revision))
        self.expectations.overlay(resource).observe_revision("", store.resource_version)

    def watch(self, resource: Resource[Any]) -> None:
        """Feed a store of one more resource, at revision 1."""
        store = self.stores[resource] = Store({"owner": index_by_owner})
        store.replace([], "1")
        self.expectations.overlay(resource).add_cache("", store, {"owner": index_by_owner})

    def owned_by(self, owner: Owner) -> None:
        """An object of a kind is there, and writes."""
        self.expectations.add_owner(owner)

    def gone(self, owner: Owner = OWNER) -> None:
        """Nothing has this name any more."""
        self.expectations.remove_owner(owner.controller, owner.key)

    def sent(self, write: Write, owner: Owner = OWNER) -> None:
        self.expectations.expect(owner, write)

    def done(
        self, write: Write, obj: KubeObject, owner: Owner = OWNER, *, created: bool = False
    ) -> None:
        self.expectations.confirm(owner, write, obj, created=created)

    def lost(self, write: Write, owner: Owner = OWNER) -> None:
        self.expectations.mark_unknown(owner, write)

    def taken(self, write: Create) -> None:
        """A create is refused, since somebody else has this name."""
        self.expectations.name_conflict(OWNER, write)

    def conflicted(self, write: Write, obj: KubeObject | None) -> None:
        """A change is refused, and this is what a live read found."""
        self.expectations.precondition_failed(OWNER, write, obj)

    def looked_up(self, name: str, obj: KubeObject | None) -> None:
        """A lookup of a plan found this."""
        self.expectations.record_lookup(OWNER, target(name), obj)

    async def perform(self, client: ScriptedClient, write: Write) -> WriteResult:
        """Send one write and record its answer."""
        return await Writer(client, self.expectations).perform(OWNER, write)

    async def execute(self, client: ScriptedClient, plan: Plan) -> PlanOutcome:
        writer, lookups = (each(client, self.expectations) for each in (Writer, LookupReader))
        execution = PlanExecution(
            owner=OWNER,
            resource=CONFIG_MAPS,
            primary=child("f", 5, uid=OWNER.uid, owner=""),
            plan=plan,
            status_after=lambda failures: None,
            emit=lambda event: None,
            wall=lambda: NOW,
        )
        return await Executor(
            writer, lookups, self.expectations, now=self.now, rng=random.Random(0)
        ).execute(execution)

    def pending(self, owner: str = OWNER.uid) -> frozenset[str]:
        """Return the scopes in which the outcome of a write is unknown."""
        return self.expectations.reader.record(owner).pending_scopes

    def warnings(self) -> tuple[str, ...]:
        """Return what is said about objects of which caches and server disagree."""
        return self.expectations.reader.record(OWNER.uid).consistency_warnings

    def revision(self) -> str:
        return self.expectations.reader.revision(CONFIG_MAPS, OWNER.uid)

    def is_taken(self, name: str = "a") -> bool:
        return self.expectations.reader.record(OWNER.uid).has_name_conflict(
            CONFIG_MAPS, f"default/{name}"
        )

    def is_absent(self, name: str = "a") -> bool:
        return self.expectations.reader.record(OWNER.uid).looked_up_absent(
            CONFIG_MAPS, f"default/{name}"
        )

    def next_question(self, name: str = "a") -> float:
        entry = self.expectations.get(self.reference(name))
        assert entry is not None
        return self.expectations.record(OWNER.uid).next_live_read(entry, self.time)

    def statistics(self) -> ExpectationStatistics:
        return self.expectations.statistics()

    def names(self, owner: str = OWNER.uid) -> list[str]:
        return sorted(o.metadata.name for o in self.children(owner))

    def live(self, owner: str = OWNER.uid) -> list[str]:
        return sorted(o.metadata.name for o in self.children(owner) if not o.metadata.terminating)

    def children(self, owner: str = OWNER.uid, resource: Resource[Any] = CONFIG_MAPS) -> list[Any]:
        return self.expectations.reader.by_index(resource, "owner", owner)

    def get(self, name: str = "a") -> ConfigMap | None:
        return self.expectations.reader.get(CONFIG_MAPS, f"default/{name}")

    def make(self, name: str = "a", revision: int = 10) -> ConfigMap:
        obj = child(name, revision)
        write = create(name)
        self.expectations.expect(OWNER, write)
        self.expectations.confirm(OWNER, write, obj)
        return obj

    def unmake(self, name: str = "a", *, uid: str = "", answer: ConfigMap | None = None) -> None:
        """A delete and its answer, a bare Status if none is given."""
        write = delete(name, uid=uid)
        self.expectations.expect(OWNER, write)
        self.expectations.confirm_delete(OWNER, write, answer)

    @property
    def questions(self) -> list[str]:
        """Names of objects that the owner's next reconcile reads live, or sends again."""
        found = self.expectations.record(OWNER.uid).questions(self.time)
        return [
            *(write.target.name for write in found.repeats),
            *(reference.name for reference in found.reads),
        ]

    @property
    def entries(self) -> int:
        return self.expectations.statistics().expectations

    def answer(self, name: str, obj: ConfigMap | None) -> None:
        entry = self.expectations.get(self.reference(name))
        assert entry is not None
        self.expectations.record_live_read(entry, obj)

    def reference(self, name: str) -> ObjectReference:
        return ObjectReference(CONFIG_MAPS, f"default/{name}")


def status_error(code: int, reason: str = "", *, cause: str = "", message: str = "") -> StatusError:
    details = {"causes": [{"reason": cause, "message": message}]} if cause else {}
    return error_for(Status(code, reason, message or reason, details))


@dataclass
class Call:
    verb: str
    name: str
    body: Any = None


@dataclass
class ScriptedClient:
    """Answers as the test says; notes what was asked, and how much of it at once.

    `script` gets each call and returns the object, or raises. The default keeps objects in a
    dictionary as a server would. Each call takes `seconds`, or as long as `before` does.
    """

    script: Callable[[Call], KubeObject | None] | None = None
    seconds: float = 1.0
    before: Callable[[Call], Awaitable[None]] | None = None
    calls: list[Call] = field(default_factory=list)
    objects: dict[str, KubeObject] = field(default_factory=dict)
    revision: int = 100
    in_flight: int = 0
    most: int = 0

    def verbs(self, verb: str) -> list[str]:
        return [call.name for call in self.calls if call.verb == verb]

    def for_flow(self, flow: str, on_silence: Any = None) -> ScriptedClient:
        return self

    async def get(self, resource: Any, namespace: str, name: str) -> Any:
        return await self._answer(Call("get", name))

    async def get_raw(self, resource: Any, namespace: str, name: str) -> dict[str, Any]:
        obj: Any = await self._answer(Call("get_raw", name))
        plain = msgspec.to_builtins(obj)
        plain["kind"] = resource.kind
        return plain

    async def create(self, resource: Any, namespace: str, body: Mapping[str, Any]) -> Any:
        return await self._answer(Call("create", body["metadata"]["name"], body))

    async def merge_patch(
        self, resource: Any, namespace: str, name: str, patch: Any, *, subresource: str = ""
    ) -> Any:
        return await self._answer(Call(f"patch{subresource and '/'}{subresource}", name, patch))

    async def json_patch(
        self, resource: Any, namespace: str, name: str, operations: Any, *, subresource: str = ""
    ) -> Any:
        return await self._answer(Call("json_patch", name, operations))

    async def replace(self, resource: Any, namespace: str, name: str, body: Any) -> Any:
        return await self._answer(Call("replace", name, body))

    async def delete(self, resource: Any, namespace: str, name: str, **options: Any) -> Any:
        return await self._answer(Call("delete", name, options))

    async def _answer(self, call: Call) -> Any:
        self.calls.append(call)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if self.before is None:
                await asyncio.sleep(self.seconds)
            else:
                await self.before(call)
            return (self.script or self.serve)(call)
        finally:
            self.in_flight -= 1

    def serve(self, call: Call) -> KubeObject | None:
        self.revision += 1
        present = self.objects.get(call.name)
        if call.verb == "create":
            if present is not None:
                raise status_error(409, "AlreadyExists")
            self.objects[call.name] = child(call.name, self.revision)
        elif present is None:
            raise status_error(404, "NotFound")
        elif call.verb == "delete":
            if call.body.get("uid") not in {None, present.metadata.uid}:
                raise status_error(409, "Conflict")
            del self.objects[call.name]
            return None
        elif call.verb not in {"get", "get_raw"}:
            metadata = msgspec.structs.replace(
                present.metadata, resource_version=str(self.revision)
            )
            self.objects[call.name] = msgspec.structs.replace(present, metadata=metadata)
        return self.objects[call.name]
