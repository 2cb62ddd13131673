"""The command `manta status`: trees and tables, drawn on a terminal and indented elsewhere."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TextIO

from controller.apimachinery.conditions import time_of
from controller.command.connection import ConnectionOptions
from controller.command.output import (
    CommandOutput,
    aligned,
    duration,
    parse_kind,
    parse_target,
    suggestion,
)
from controller.command.status.objects import (
    EventStatus,
    GroupStatus,
    ObjectStatus,
    Overview,
    PodStatus,
    Tree,
)
from controller.command.status.reading import KINDS, Seen, SeenEvent, read, resources_of, watching
from controller.command.status.tree import overview, tree
from controller.kube.client import Client
from controller.kube.errors import ConfigurationError
from controller.kube.resources import Resource
from controller.ray.api import labels
from controller.ray.api.names import RayObject

_REDRAWN_AFTER: Final = 10.0
"""Seconds after which a terminal shows the ages anew."""


class StatusOptions(ConnectionOptions, frozen=True):
    """The arguments of `manta status`.

    The target is `KIND/NAME`, its two words, `KIND`, or nothing.
    """

    target: Sequence[str] = ()
    all_namespaces: bool = False
    watch: bool = False


async def print_status(
    client: Client,
    namespace: str,
    options: StatusOptions,
    stream: TextIO,
    clock: Callable[[], datetime],
) -> int:
    """Print what there is; returns the exit status.

    Raises:
        ConfigurationError: the arguments name no object.
        KubeError: the API server could not be reached, or a watch was refused.
    """
    view = _View(options, namespace, stream, clock)
    seen = await read(client, view.resources, view.namespace)
    if not view.shows(seen):
        return 1
    if options.watch:
        async with watching(client, seen, view.namespace) as watch:
            while True:
                now = await watch.change(_REDRAWN_AFTER)
                if now is not None and not view.shows(now):
                    return 0
    return 1 if seen.missing else 0


class _View:
    """Prints what the options ask for, when it is not what was printed last."""

    def __init__(
        self,
        options: StatusOptions,
        namespace: str,
        stream: TextIO,
        clock: Callable[[], datetime],
    ) -> None:
        words, self._name = options.target, ""
        self._kind: Resource[Any] | None = None
        if len(words) == 1 and "/" not in words[0]:
            self._kind = parse_kind(words[0], KINDS, "shown")
        elif words:
            self._kind, self._name = parse_target(words, KINDS, "shown")
        if self._name and options.all_namespaces:
            raise ConfigurationError("-A shows all objects; name one without it, with -n")
        self.namespace = "" if options.all_namespaces else namespace
        named = self._kind if self._name else None
        self.resources = resources_of(named) if named is not None else [*KINDS]
        self._options, self._stream, self._clock = options, stream, clock
        self._output = CommandOutput(stream, as_json=options.output == "json")
        self._shown: Tree | Overview | None = None

    def shows(self, seen: Seen) -> bool:
        """Print what was read; return False if the named object does not exist."""
        found = overview(seen, self._kind) if not self._name else self._tree(seen)
        if found is None:
            return False
        terminal = self._stream.isatty()
        if found == self._shown and not terminal:
            return True
        if self._options.watch and terminal and self._options.output == "text":
            self._stream.write("\x1b[H\x1b[2J")
        elif self._shown is not None and self._options.output == "text":
            self._stream.write("\n")
        if found.missing and (self._shown is None or found.missing != self._shown.missing):
            sys.stderr.writelines(f"manta status: {each}\n" for each in found.missing)
        self._shown = found
        self._print(found, width=shutil.get_terminal_size().columns if terminal else None)
        return True

    def _print(self, found: Tree | Overview, *, width: int | None) -> None:
        now = self._clock()
        if self._options.output == "json":
            self._output.document(found, in_one_line=self._options.watch)
        elif isinstance(found, Tree):
            write_tree(found, self._output, now)
        else:
            write_overview(found, self._output, now, width=width, namespace=self.namespace)

    def _tree(self, seen: Seen) -> Tree | None:
        """Return the tree of the named object; None, with a word to the user, without it."""
        assert self._kind is not None
        objects = seen.objects.get(self._kind, [])
        for obj in objects:
            if obj.metadata.name == self._name:
                return tree(seen, self._kind, obj, self._clock())
        sys.stderr.writelines(f"manta status: {each}\n" for each in seen.missing)
        sys.stderr.write(f"manta status: {self._not_there(objects)}\n")
        return None

    def _not_there(self, objects: Sequence[RayObject]) -> str:
        assert self._kind is not None
        name = f"{self._kind.kind.lower()}/{self._name}"
        near = suggestion(self._name, [each.metadata.name for each in objects])
        if isinstance(self._shown, Tree):
            return f"{name} is gone"
        return f"{name} does not exist in namespace {self.namespace}; -n chooses another one{near}"


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
    rows: list[list[str]] = []
    for each in events:
        times = f" (x{each.count})" if each.count > 1 else ""
        ago = duration(max(0.0, (now - each.time).total_seconds()))
        rows.append([f"{ago} ago", each.object, each.reason + times, each.note])
    return rows


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
