"""The table of transitions as a picture and the table of reasons, for docs/rayjob.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.job.state_machine.reasons import Reason
from controller.ray.job.state_machine.states import State
from controller.ray.job.state_machine.transitions import TABLE, Enter, Fail

if TYPE_CHECKING:
    from controller.ray.job.state_machine.transitions import Predicate


def picture() -> str:
    """A Mermaid diagram of all rows; a failed attempt passes through a choice."""
    lines = ["stateDiagram-v2", "    state retry <<choice>>", "    [*] --> New"]
    for row in TABLE:
        match row.then:
            case Enter(state):
                lines.append(_arrow(row.state.title, state.title, _words(row.when)))
            case Fail(reason):
                lines.append(
                    _arrow(row.state.title, "retry", f"{_words(row.when)} = {reason.title}")
                )
            case _:
                continue
    lines += [
        _arrow("retry", State.RETRYING.title, "may be retried, and attempts are left"),
        _arrow("retry", State.FAILED.title, "else"),
        f"    {State.COMPLETE.title} --> [*]",
        f"    {State.FAILED.title} --> [*]",
    ]
    return "\n".join(dict.fromkeys(lines))


def reasons() -> str:
    """A Markdown table of the reasons."""
    rows = ["| Reason | Retried | What happened |", "|---|---|---|"]
    for reason in Reason:
        retried = "yes" if reason.retriable else "no"
        rows.append(f"| `{reason.title}` | {retried} | {reason.value.words} |")
    return "\n".join(rows)


def _arrow(start: str, end: str, words: str) -> str:
    return f"    {start} --> {end}: {words}"


def _words(when: Predicate) -> str:
    return when.__name__.replace("_", " ")
