"""Widgets: so many ConfigMaps with a text. `python -m examples.kinds.widget.widget` runs it."""

from __future__ import annotations

from datetime import datetime

from controller.apimachinery.custom_object import CustomObject
from controller.apimachinery.validation import Problem
from controller.command.cli.run import run_kinds
from controller.kube.objects import View
from controller.kube.resources import CONFIG_MAPS, Resource
from controller.runtime.children import Children, Seen
from controller.runtime.kind import Kind, Owned
from controller.runtime.plan import Plan

LABEL = "example.dev/widget"


class WidgetSpec(View, frozen=True):
    """What the kind reads of `spec`; other fields are not kept."""

    copies: int = 1
    text: str = ""


class Widget(CustomObject, frozen=True):
    """A Widget as it is cached."""

    spec: WidgetSpec = WidgetSpec()


WIDGETS = Resource("example.dev", "v1", "widgets", "Widget", Widget)


class WidgetKind(Kind[Seen[Widget]]):
    """Keeps `spec.copies` ConfigMaps with the text of `spec.text`."""

    primary = WIDGETS
    owned = (Owned(CONFIG_MAPS, label_selector=LABEL),)

    def problem(self, seen: Seen[Widget]) -> Problem | None:
        """Return what is wrong with the specification."""
        if 0 <= seen.obj.spec.copies <= 100:
            return None
        return Problem("spec.copies", "must be 0 to 100", "InvalidWidgetSpec")

    def plan(self, seen: Seen[Widget], now: datetime) -> Plan:
        """Return what brings the Widget to its wanted state."""
        spec, name = seen.obj.spec, seen.obj.metadata.name
        status = {"copies": len(seen.of(CONFIG_MAPS))}
        if problem := self.problem(seen):
            return seen.report(now, problem, status)
        body = {"metadata": {"labels": {LABEL: name}}, "data": {"text": spec.text}}
        copies = {f"{name}-{number}": body for number in range(spec.copies)}
        return seen.converge(now, Children(CONFIG_MAPS, copies, repairs=("data",)), status=status)


if __name__ == "__main__":
    raise SystemExit(run_kinds([WidgetKind()]))
