"""The line of a reconcile in docs/debugging.md is one that the operator writes."""

from __future__ import annotations

import json
import re

from structlog.testing import capture_logs

from tests.docs.tree import ROOT
from tests.integration.harness import embedded_world

PAGE = (ROOT / "docs" / "debugging.md").read_text()
OF_THE_RENDERER = {"level", "logger", "timestamp"}
"""What logs.py adds to every line."""


async def test_the_line_on_the_page_has_the_fields_of_a_real_one():
    (shown,) = (json.loads(line) for line in re.findall(r"^\{.*\}$", PAGE, re.MULTILINE))
    with capture_logs() as lines:
        async with embedded_world() as world:
            world.start_operator()
            await world.create_cluster(replicas=2)
            await world.eventually(world.is_ready)
    real = [line for line in lines if line["event"] == "reconcile"]
    first = next(line for line in real if line.get("writes"))
    assert shown.keys() - OF_THE_RENDERER == first.keys() - {"log_level"}
    assert shown["writes"] == first["writes"]
    assert shown["result"] == first["result"]

    rows = PAGE.split("| Field | Meaning |")[1].split("\n\n")[0]
    explained = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+?) \|", rows, re.MULTILINE)))
    )
    written = {field for line in real for field in line}
    of_kubernetes = {"event", "log_level", "controller", "kind", "namespace", "name"}
    assert written - of_kubernetes <= explained
