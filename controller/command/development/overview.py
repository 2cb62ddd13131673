"""The live screen of `manta dev`: objects of Ray, their causes, and the last events."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from controller.command.output import duration
from controller.command.process import wall
from controller.command.status.text import colour_of, event_rows, overview_rows
from controller.command.status.tree import last_events, overview

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from datetime import datetime

    from controller.command.status.reading import Seen, Watch

_REDRAWN_AFTER: Final = 1.0
"""Seconds after which ages are shown anew."""
_MOST_OBJECTS: Final = 15


@asynccontextmanager
async def live_overview(watch: Watch, heading: str) -> AsyncGenerator[None]:
    """Show on the terminal what there is, until the block ends; the last picture stays.

    Args:
        watch: keeps up to date what is shown.
        heading: lines above the tables.
    """
    from rich.live import Live  # noqa: PLC0415  an extra

    with Live(heading, refresh_per_second=4) as live:

        async def show() -> None:
            while True:
                if (seen := await watch.change(_REDRAWN_AFTER)) is not None:
                    live.update(picture(seen, heading, wall()))

        showing = asyncio.create_task(show())
        try:
            yield
        finally:
            showing.cancel()
            with suppress(asyncio.CancelledError):
                await showing


def picture(seen: Seen, heading: str, now: datetime) -> Any:
    """Return the screen, for `rich`."""
    from rich.console import Group  # noqa: PLC0415  an extra
    from rich.text import Text  # noqa: PLC0415

    objects = overview(seen, None).objects
    shown = objects[:_MOST_OBJECTS]
    parts: list[Any] = [Text(heading)]
    if shown:
        states = [colour_of(each.state) for each in shown]
        rows = overview_rows(shown, now, all_of_them=True)
        parts.append(_table(rows, states, f"at {now:%H:%M:%S} UTC"))
    if left := len(objects) - len(shown):
        parts.append(Text(f"and {left} more; manta status -A shows all", style="dim"))
    if events := last_events(seen.events):
        oldest = duration(max(0.0, (now - events[0].time).total_seconds()))
        heads = ["AGE", "OBJECT", "REASON", "NOTE"]
        styles = ["yellow" if each.type == "Warning" else "" for each in events]
        title = f"last events, since {oldest} ago"
        parts.append(_table([heads, *event_rows(events, now)], styles, title))
    return Group(*parts)


def _table(rows: Sequence[Sequence[str]], styles: Sequence[str], title: str) -> Any:
    from rich.table import Table  # noqa: PLC0415  an extra
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title, box=None, title_justify="left", pad_edge=False, expand=True)
    for name in rows[0]:
        widest = name in {"CAUSE", "NOTE"}
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1 if widest else None)
    for row, style in zip(rows[1:], styles, strict=True):
        table.add_row(*(Text(cell, style=style) for cell in row))
    return table
