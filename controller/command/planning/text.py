"""A plan for people: signs as in a diff, colours on a terminal, nothing else in a pipe."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from controller.command.planning.differences import Difference
    from controller.command.planning.outcome import Action, Item, ObjectPlan

Line = tuple[str, str]  # a style of `rich`, and the text

_SIGNS: Final[dict[Action, tuple[str, str]]] = {
    "create": ("green", "+"),
    "change": ("yellow", "~"),
    "replace": ("magenta", "±"),
    "delete": ("red", "-"),
}
_MOST_NAMES: Final = 5
_LONGEST_VALUE: Final = 100


def write_text(plans: Sequence[ObjectPlan], stream: TextIO) -> None:
    """Write all plans, in colour if the stream is a terminal and wants it."""
    lines = [line for plan in plans for line in text_of(plan)]
    console = _console(stream)
    for style, text in lines:
        if console is None:
            stream.write(f"{text}\n")
        else:
            console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def text_of(plan: ObjectPlan) -> Iterator[Line]:
    """The lines of one plan."""
    state = "" if plan.exists else " (new)"
    yield "bold", f"{plan.kind} {plan.namespace}/{plan.name}{state}: {_summary(plan)}"
    if plan.problem:
        yield "red", f"  ! {plan.problem}"
    if plan.edits:
        yield "", "  the manifest changes"
        yield from (("yellow", f"    {_difference(edit)}") for edit in plan.edits)
    if plan.items:
        yield "", "  the operator would"
    for item in plan.items:
        style, sign = _SIGNS[item.action]
        yield style, f"    {sign} {_item(item)}"
        yield from ((style, f"        {_difference(each)}") for each in item.differences)
    for note in plan.notes:
        yield "cyan", f"  note: {note}"


def _summary(plan: ObjectPlan) -> str:
    if plan.problem:
        return "would be refused; nothing would be done"
    counts = [f"{plan.count(action)} to {action}" for action in _SIGNS if plan.count(action)]
    return ", ".join(counts) or "nothing to do"


def _item(item: Item) -> str:
    what = f"{item.action} {item.kind}"
    if item.group and item.group != "headgroup":
        pods = "Pod" if item.count == 1 else "Pods"
        what = f"{item.action} {item.count} {pods} of group {item.group}"
    elif item.group:
        what = f"{item.action} head {item.kind}"
    names = ", ".join(item.names[:_MOST_NAMES])
    if len(item.names) > _MOST_NAMES:
        names += f" and {len(item.names) - _MOST_NAMES} more"
    arrow = " -> ".join(filter(None, (names, item.new)))
    why = f" ({item.why})" if item.why else ""
    return f"{what}: {arrow}{why}"


def _difference(change: Difference) -> str:
    if change.old is None:
        return f"{change.path}: + {_value(change.new)}"
    if change.new is None:
        return f"{change.path}: - {_value(change.old)}"
    return f"{change.path}: {_value(change.old)} -> {_value(change.new)}"


def _value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _console(stream: TextIO) -> Any:
    """A console of `rich`, if there is a terminal, an extra installed, and no `NO_COLOR`."""
    if not stream.isatty() or "NO_COLOR" in os.environ:
        return None
    try:
        from rich.console import Console  # noqa: PLC0415  an extra
    except ImportError:
        return None
    return Console(file=stream)
