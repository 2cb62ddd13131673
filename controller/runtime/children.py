"""An object with its children, as most kinds see it, and the plan that makes them what is wanted.

Pure: `Kind.observe` reads a `Seen` from the caches, and `Kind.plan` asks it for a plan. Children
are created and deleted. Of one that exists only those fields are put back that the kind names, so
that what users and other controllers change stays theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec.structs import replace

from controller.apimachinery.conditions import READY, ConditionSet
from controller.apimachinery.custom_object import mapping, mappings
from controller.apimachinery.metadata import owner_reference
from controller.apimachinery.patches import difference, holds_list
from controller.apimachinery.validation import Problem
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.runtime.plan import (
    NOTHING,
    Create,
    Delete,
    Event,
    Failure,
    MergePatch,
    Plan,
    StatusPatch,
    Target,
    Write,
    stages_of,
)

T = TypeVar("T", bound=KubeObject)
Child = TypeVar("Child", bound=KubeObject)


class Children(msgspec.Struct, frozen=True):
    """The children of one resource that an object is to have.

    Attributes:
        wanted: their bodies by name. Type, name, namespace and owner reference are added.
        repairs: fields of the body, such as `data`, that are put back when they differ. Members
            that the body does not name stay as they are.
    """

    resource: Resource[Any]
    wanted: Mapping[str, Mapping[str, Any]]
    repairs: tuple[str, ...] = ()


class Seen(msgspec.Struct, Generic[T], frozen=True):
    """Everything that a plan may depend on.

    Attributes:
        children: its children by resource and name, terminating ones included, own writes too. A
            resource that the API server lacks is left out.
        blocked: names under which no child can be made, by resource, each with a sentence why.
        pending: scopes with a write of unknown outcome. The scope of a child is its resource.
        warnings: sentences about children that differ from what was written.
    """

    resource: Resource[T]
    obj: T
    children: Mapping[Resource[Any], Mapping[str, KubeObject]]
    blocked: Mapping[Resource[Any], Mapping[str, str]] = msgspec.field(
        default_factory=dict["Resource[Any]", "Mapping[str, str]"]
    )
    pending: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    def of(self, resource: Resource[Child]) -> Mapping[str, Child]:
        """Return the children of one resource by name."""
        return cast("Mapping[str, Child]", self.children.get(resource, {}))

    def converge(
        self,
        now: datetime,
        *wanted: Children,
        status: Mapping[str, Any] | None = None,
        waiting: str = "",
    ) -> Plan:
        """Return the plan that makes the children what is wanted, and reports it.

        Nothing is created or deleted while a write to such children has an unknown outcome. An
        object that is being deleted is left to the garbage collector.

        Args:
            now: the time.
            wanted: the children, the first to be made first.
            status: fields of the status besides its conditions.
            waiting: a sentence about what the object still waits for; empty if it is ready.

        Raises:
            ValueError: the kind asks for something that cannot be done.
        """
        if self.obj.metadata.terminating:
            return NOTHING
        cause = self._first_cause(wanted) or (("Waiting", waiting) if waiting else ("Complete", ""))
        stages = stages_of(*(self._writes(each) for each in wanted))
        return Plan(stages=stages, status=self._status(now, *cause, status or {}))

    def report(
        self, now: datetime, problem: Problem, status: Mapping[str, Any] | None = None
    ) -> Plan:
        """Return the plan for an object that is not valid: it writes the status, nothing else."""
        if self.obj.metadata.terminating:
            return NOTHING
        reason = problem.reason or "Invalid"
        return Plan(status=self._status(now, reason, str(problem), status or {}))

    def failed(
        self, plan: Plan, failures: tuple[Failure, ...], now: datetime
    ) -> StatusPatch | None:
        """Return the plan's status with the first write that failed as the cause."""
        first = next((each for each in failures if not each.may_resolve), None)
        if first is None or plan.status is None:
            return plan.status
        status = self._status(now, first.reason, first.message, plan.status.wanted)
        return replace(plan.status, wanted=status.wanted)

    def _status(
        self, now: datetime, reason: str, message: str, fields: Mapping[str, Any]
    ) -> StatusPatch:
        stored = mapping(msgspec.to_builtins(getattr(self.obj, "status", None)))
        present = mappings(stored.get("conditions"))
        conditions = ConditionSet(present, self.obj.metadata.generation, now)
        conditions.set(READY, "False" if message else "True", reason, message)
        return StatusPatch({**fields, "conditions": conditions.as_list()})

    def _first_cause(self, wanted: tuple[Children, ...]) -> tuple[str, str] | None:
        """Return reason and sentence of what is not as it should be; None if all children exist."""
        for each in wanted:
            if each.resource not in self.children:
                return "NotInstalled", f"the API server has no {each.resource}: install them"
            blocked = self.blocked.get(each.resource, {})
            if name := next((name for name in sorted(each.wanted) if name in blocked), ""):
                return "Blocked", blocked[name]
        if self.warnings:
            return "Inconsistent", self.warnings[0]
        for each in wanted:
            present = self.of(each.resource)
            alive = {name for name, child in present.items() if not child.metadata.terminating}
            missing, surplus = each.wanted.keys() - alive, alive - each.wanted.keys()
            if missing or surplus:
                count, total = len(each.wanted) - len(missing), len(each.wanted)
                more = f"; {len(surplus)} more are to be deleted" if surplus else ""
                return "Progressing", f"{each.resource.kind}: {count} of {total} exist{more}"
        return None

    def _writes(self, children: Children) -> Iterator[Write]:
        """Yield creates, repairs and deletes; a terminating child keeps its name until it is gone.

        What waits for the outcome of an earlier write is left out.
        """
        resource = children.resource
        if resource not in self.children or resource.plural in self.pending:
            return
        present, blocked = self.of(resource), self.blocked.get(resource, {})
        for name, body in children.wanted.items():
            child = present.get(name)
            if child is not None and not child.metadata.terminating:
                wanted = {name: body.get(name) for name in children.repairs}
                yield from self._repairs(resource, child, wanted)
            elif child is None and name not in blocked:
                yield self._create(resource, name, body)
        for name in sorted(present.keys() - children.wanted.keys()):
            meta = present[name].metadata
            if not meta.terminating:
                deleted = Event("Normal", "Deleted", "Delete", f"Deleted {resource.kind} {name}")
                yield Delete(self._target(resource, name), meta.uid, on_success=deleted)

    def _create(self, resource: Resource[Any], name: str, body: Mapping[str, Any]) -> Create:
        meta = self.obj.metadata
        if not resource.namespaced and meta.namespace:
            raise ValueError(f"{resource} have no namespace, so {self.resource} cannot own them")
        metadata = {
            **body.get("metadata", {}),
            "name": name,
            "ownerReferences": [owner_reference(self.resource, meta)],
        }
        if resource.namespaced:
            metadata["namespace"] = meta.namespace
        typed = {"apiVersion": resource.api_version, "kind": resource.kind}
        created = Event("Normal", "Created", "Create", f"Created {resource.kind} {name}")
        target = self._target(resource, name)
        return Create(target, {**body, **typed, "metadata": metadata}, on_success=created)

    def _repairs(
        self, resource: Resource[Any], child: KubeObject, wanted: Mapping[str, Any]
    ) -> Iterator[Write]:
        present: dict[str, Any] = msgspec.to_builtins(child)
        if unknown := wanted.keys() - present.keys():
            view = type(child).__name__
            raise ValueError(f"{view} has no field {unknown.pop()}: declare what is repaired")
        patch = difference(present, wanted)
        if patch:
            meta = child.metadata
            revision = meta.resource_version if holds_list(patch) else None
            target = self._target(resource, meta.name)
            yield MergePatch(target, meta.uid, patch, resource_version=revision)

    def _target(self, resource: Resource[Any], name: str) -> Target:
        namespace = self.obj.metadata.namespace if resource.namespaced else ""
        return Target(resource, namespace, name, scope=resource.plural)
