"""Trees and tables of objects as text: drawn and coloured on a terminal, indented elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import time_of
from controller.command.output import aligned, duration
from controller.ray.api import labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from controller.command.output import CommandOutput
    from controller.command.status.objects import (
        EventStatus,
        GroupStatus,
        ObjectStatus,
        Overview,
        PodStatus,
        Tree,
    )
    from controller.command.status.reading import SeenEvent

_COLOURS: Final = {
    "green": frozenset({"ready", "ended", "Complete", "Running", "scheduled", "Succeeded"}),
    "red": frozenset({"not ready", "Failed", "ValidationFailed"}),
}


@dataclass(slots=True)
class _Node:
    text: str
    style: str = ""
    children: list[_Node] = field(default_factory=list["_Node"])


def write_overview(
    found: Overview, output: CommandOutput, now: datetime, *, width: int | None, namespace: str
) -> None:
    """Print a table of the objects, cut at the width of a terminal; no namespace means all."""
    all_of_them = not namespace
    if found.objects:
        rows = overview_rows(found.objects, now, all_of_them=all_of_them)
        lines = [line[:width] for line in aligned(rows)]
        output.line(lines[0], "bold")
        for each, line in zip(found.objects, lines[1:], strict=True):
            output.line(line, colour_of(each.state) if each.state != "ready" else "")
    elif not found.missing:
        where = (
            f"namespace {namespace}; -A looks into all of them" if namespace else "any namespace"
        )
        output.line(f"there is none in {where}")


def overview_rows(
    objects: Iterable[ObjectStatus], now: datetime, *, all_of_them: bool
) -> list[list[str]]:
    """Return the table of these objects; its first row is the heading."""
    heading = ["NAMESPACE"] * all_of_them + ["OBJECT", "STATE", "AGE", "CPUS", "GPUS", "CAUSE"]
    return [heading, *(_row(each, now, all_of_them=all_of_them) for each in objects)]


def event_rows(events: Iterable[EventStatus], now: datetime) -> list[list[str]]:
    """Return a row for each event: when, about what, reason and note."""
    return [_event_row(each, now) for each in events]


def event_text(event: SeenEvent) -> str:
    """Return what happened, how often, to what and by whom."""
    about = f"{event.regarding.kind.lower()}/{event.regarding.name}"
    who = f" by {event.reporting_controller}" if event.reporting_controller else ""
    times = f" (x{event.count})" if event.count > 1 else ""
    return f"{event.reason}{times} of {about}{who}: {event.note}"


def condition_text(condition: Mapping[str, Any]) -> str:
    """Return a condition with its reason and its message, which may be newer than its time."""
    text = f"{condition.get('type')} {condition.get('status')}"
    said = ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))
    return f"{text}: {said}" if said else text


def _row(each: ObjectStatus, now: datetime, *, all_of_them: bool) -> list[str]:
    name = f"{each.kind.lower()}/{each.name}"
    return [
        *([each.namespace] * all_of_them),
        *(name, each.state, _age(each.created, now), each.cpus or "-", each.gpus or "-"),
        each.cause,
    ]


def write_tree(found: Tree, output: CommandOutput, now: datetime) -> None:
    """Print the object and what belongs to it, and then the events."""
    _draw([_object(found.object, now)], output, "")
    if found.events:
        output.line("")
        output.line("events, the last at the end", "bold")
        lines = aligned(event_rows(found.events, now))
        for each, line in zip(found.events, lines, strict=True):
            output.line(f"  {line}", "yellow" if each.type == "Warning" else "")


def _event_row(each: EventStatus, now: datetime) -> list[str]:
    times = f" (x{each.count})" if each.count > 1 else ""
    ago = f"{duration(max(0.0, (now - each.time).total_seconds()))} ago"
    return [ago, each.object, each.reason + times, each.note]


def _object(each: ObjectStatus, now: datetime) -> _Node:
    numbers = f", {_numbers(each.cpus, each.gpus)}" if each.cpus or each.gpus else ""
    detail = f" ({each.detail})" if each.detail else ""
    title = f"{each.kind.lower()}/{each.name}: {each.state}{detail}{numbers}"
    node = _Node(f"{title}, {_age(each.created, now)} old", colour_of(each.state))
    if each.cause:
        node.children.append(_Node(f"cause: {each.cause}", "bold"))
    node.children += [_Node(f"note: {note}", "yellow") for note in each.notes]
    node.children += [_object(child, now) for child in each.children]
    node.children += [_group(group, now) for group in each.groups]
    node.children += [_pod(pod, now) for pod in each.pods]
    return node


def _group(group: GroupStatus, now: datetime) -> _Node:
    name = "head" if group.name == labels.HEAD_GROUP else f"group {group.name}"
    title = f"{name}: {group.ready} of {group.desired} ready, {_numbers(group.cpus, group.gpus)}"
    style = "green" if group.ready >= group.desired else "yellow"
    return _Node(title, style, [_pod(pod, now) for pod in group.pods])


def _pod(pod: PodStatus, now: datetime) -> _Node:
    node = f" on {pod.node}" if pod.node else ""
    restarts = f", {pod.restarts} restarts" if pod.restarts else ""
    title = f"pod/{pod.name}: {pod.state}{node}{restarts}, {_age(pod.created, now)} old"
    cause = [_Node(f"cause: {pod.cause}")] if pod.cause else []
    return _Node(title, colour_of(pod.state), cause)


def _numbers(cpus: str, gpus: str) -> str:
    return f"CPUs {cpus or '0'}, GPUs {gpus or '0'}"


def _age(created: str, now: datetime) -> str:
    since = time_of(created)
    return "-" if since is None else duration(max(0.0, (now - since).total_seconds()))


def colour_of(state: str) -> str:
    """Return the colour in which a state is shown."""
    return next((colour for colour, states in _COLOURS.items() if state in states), "yellow")


def _draw(nodes: Iterable[_Node], output: CommandOutput, indent: str) -> None:
    for node in nodes:
        output.line(node.text, node.style)
        for line, style in _below(node, indent, drawn=output.coloured):
            output.line(line, style)


def _below(node: _Node, indent: str, *, drawn: bool) -> Iterator[tuple[str, str]]:
    for number, child in enumerate(node.children, start=1):
        last = number == len(node.children)
        branch, trunk = ("└─ " if last else "├─ ", "   " if last else "│  ")
        if not drawn:
            branch = trunk = "  "
        yield f"{indent}{branch}{child.text}", child.style
        yield from _below(child, indent + trunk, drawn=drawn)
