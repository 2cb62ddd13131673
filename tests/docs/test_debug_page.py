"""docs/operations.md has every field of the debug page."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from controller.runtime import debug
from tests.docs.tree import ROOT
from tests.docs.upgrade_pictures import block

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


def test_the_page_has_every_field():
    told = block((ROOT / "docs" / "operations.md").read_text(), "debug")
    fields = [f"{path}{name}" for path, part in _PARTS for name in part.__struct_fields__]
    assert re.findall(r"^\| `(.+?)` \| [^|]+ \|$", told, re.MULTILINE) == fields
