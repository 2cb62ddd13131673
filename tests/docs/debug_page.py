"""The tables of docs/operations.md: each field of the debug page.

After a change, run `.venv/bin/python -m tests.docs.debug_page`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from controller.runtime import debug
from tests.docs.tree import ROOT
from tests.docs.upgrade_pictures import with_blocks

PAGE: Final = ROOT / "docs" / "operations.md"
BLOCK: Final = "debug"

_PARTS: Final[tuple[tuple[str, type[Struct]], ...]] = (
    ("", debug.PageContent),
    ("leader.", debug.Leader),
    ("event_loop.", debug.EventLoop),
    ("controllers.items[].", debug.ControllerEntry),
    ("controllers.items[].processing.items[].", debug.RunEntry),
    ("controllers.items[].backing_off.items[].", debug.BackingOffKey),
    ("expectations.", debug.ExpectationsSection),
    ("expectations.entries.items[].", debug.ExpectationEntry),
    ("informers.items[].", debug.InformerEntry),
    ("probes.items[].", debug.ProbeEntry),
    ("tasks.items[].", debug.TaskGroup),
    ("LIST.", debug.BoundedList),
)


def table() -> str:
    rows = [f"| `{path}` | {meaning} |" for path, meaning in _fields()]
    return "\n".join(["| Field | Meaning |", "|---|---|", *rows])


def _fields() -> Iterator[tuple[str, str]]:
    for path, part in _PARTS:
        text = (part.__doc__ or "").partition("Attributes:\n")[2].replace("\n            ", " ")
        described = dict(re.findall(r"(\w+): (.+)\.$", text, re.MULTILINE))
        for name in part.__struct_fields__:
            yield f"{path}{name}", described[name]


if __name__ == "__main__":
    PAGE.write_text(with_blocks(PAGE.read_text(), {BLOCK: table()}))
