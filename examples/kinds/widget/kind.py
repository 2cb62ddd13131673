"""The Widget kind: keeps `spec.copies` ConfigMaps with the text of `spec.text`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.apimachinery.conditions import ConditionSet
from controller.apimachinery.ownership import owner_reference
from controller.apimachinery.problem import Problem
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.kind import OWNER_INDEX, Owned
from controller.runtime.plan import (
    NOTHING,
    Create,
    Delete,
    Event,
    MergePatch,
    Plan,
    StatusPatch,
    Target,
)
from examples.kinds.widget.api import WIDGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from controller.kube.objects import ConfigMap
    from controller.kube.resources import Resource
    from controller.runtime.kind import CacheReader
    from controller.runtime.plan import Failure, Write
    from examples.kinds.widget.api import Widget

SCOPE = "copies"
MOST_COPIES = 100


@dataclass(frozen=True, slots=True)
class WidgetObservation:
    """Everything that the plan depends on.

    Attributes:
        widget: the object.
        copies: its ConfigMaps by name, terminating ones included.
        pending: whether a write to them has an unknown outcome.
        warnings: sentences about ConfigMaps that are not as they should be.
    """

    widget: Widget
    copies: Mapping[str, ConfigMap]
    pending: bool
    warnings: tuple[str, ...]


class WidgetKind:
    """Implements `controller.runtime.kind.Kind`."""

    name = "widget-controller"
    primary: Resource[Any] = WIDGETS
    owned: tuple[Owned[Any], ...] = (Owned(CONFIG_MAPS, label_selector="example.dev/widget"),)
    creates: tuple[Resource[Any], ...] = ()
    external_source = None
    optional = False
    unready_reason = ""

    def observe(self, key: str, reads: CacheReader) -> WidgetObservation | None:
        """Read the caches; None if the Widget is gone."""
        widget = reads.get(WIDGETS, key)
        if widget is None:
            return None
        uid = widget.metadata.uid
        copies = reads.by_index(CONFIG_MAPS, OWNER_INDEX, uid)
        return WidgetObservation(
            widget,
            {copy.metadata.name: copy for copy in copies},
            pending=SCOPE in reads.pending_scopes(uid),
            warnings=reads.consistency_warnings(uid),
        )

    def problem(self, observation: WidgetObservation) -> Problem | None:
        """The problem of the specification, None if it is valid."""
        if 0 <= observation.widget.spec.copies <= MOST_COPIES:
            return None
        return Problem("spec.copies", f"must be 0 to {MOST_COPIES}", "InvalidWidgetSpec")

    def plan(self, observation: WidgetObservation, now: datetime) -> Plan:
        """The writes that bring the Widget to its wanted state, and its status."""
        if observation.widget.metadata.terminating:
            return NOTHING  # the garbage collector deletes what it owns
        writes: tuple[Write, ...] = ()
        if self.problem(observation) is None and not observation.pending:
            writes = tuple(_writes(observation))
        return Plan(stages=(writes,), status=self._status(observation, (), now))

    def status_after(
        self,
        observation: WidgetObservation,
        plan: Plan,  # noqa: ARG002  the status does not depend on it
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """The status when these writes failed: it names the first cause."""
        return self._status(observation, failures, now)

    def _status(
        self, seen: WidgetObservation, failures: tuple[Failure, ...], now: datetime
    ) -> StatusPatch:
        widget, problem = seen.widget, self.problem(seen)
        reason, message = "Complete", ""
        if problem is not None:
            reason, message = problem.reason, str(problem)
        elif failures:
            reason, message = failures[0].reason, failures[0].message
        elif seen.warnings:
            reason, message = "Inconsistent", seen.warnings[0]
        elif len(seen.copies) != widget.spec.copies:
            reason, message = "Scaling", f"{len(seen.copies)} of {widget.spec.copies} copies exist"
        conditions = ConditionSet(widget.status.conditions, widget.metadata.generation, now)
        conditions.set("Ready", "False" if message else "True", reason, message)
        return StatusPatch({"copies": len(seen.copies), "conditions": conditions.as_list()})


def _writes(seen: WidgetObservation) -> Iterator[Write]:
    """Creates, patches and deletions. A terminating copy still has its name and is left alone."""
    spec, meta = seen.widget.spec, seen.widget.metadata
    wanted = [f"{meta.name}-{number}" for number in range(spec.copies)]
    for name in wanted:
        target = Target(CONFIG_MAPS, meta.namespace, name, SCOPE)
        copy = seen.copies.get(name)
        if copy is None:
            created = Event("Normal", "CreatedCopy", "Create", f"Created ConfigMap {name}")
            yield Create(target, _config_map(seen.widget, name), on_success=created)
        elif not copy.metadata.terminating and copy.data != {"text": spec.text}:
            yield MergePatch(target, copy.metadata.uid, {"data": {"text": spec.text}})
    for name in sorted(seen.copies.keys() - set(wanted)):
        surplus = seen.copies[name].metadata
        if not surplus.terminating:
            yield Delete(Target(CONFIG_MAPS, meta.namespace, name, SCOPE), surplus.uid)


def _config_map(widget: Widget, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": widget.metadata.namespace,
            "labels": {"example.dev/widget": widget.metadata.name},
            "ownerReferences": [owner_reference(WIDGETS, widget.metadata)],
        },
        "data": {"text": widget.spec.text},
    }
