"""The glossary, and the line of a reconcile in docs/debugging.md."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
from structlog.testing import capture_logs

from tests.docs.test_paths import symbols_of
from tests.docs.tree import ROOT
from tests.integration.harness import embedded_world

PAGE = (ROOT / "docs" / "glossary.md").read_text()
NAMED = re.compile(r"^\| [^|]+ \| [^|]+ \| (`[^|]+`) \|$", re.MULTILINE)
NAMES = sorted({name for cell in NAMED.findall(PAGE) for name in re.findall(r"`([^`]+)`", cell)})


@cache
def symbols() -> frozenset[str]:
    packages = ("workqueue", "informers", "controller", "devcluster", "demos")
    paths = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    return frozenset().union(*map(symbols_of, paths))


def test_every_word_names_something_and_there_are_fifty_at_most():
    rows = re.findall(r"^\| (?!Word |---)", PAGE, re.MULTILINE)
    assert 0 < len(rows) <= 50
    assert len(rows) == len(NAMED.findall(PAGE))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_glossary_names_exists(name: str):
    if "/" in name:
        assert (ROOT / name).exists()
    else:
        assert name in symbols()


DEBUGGING = (ROOT / "docs" / "debugging.md").read_text()
OF_THE_RENDERER = {"level", "logger", "timestamp"}
"""What logs.py adds to every line."""


async def test_the_line_on_the_page_has_the_fields_of_a_real_one():
    (shown,) = (json.loads(line) for line in re.findall(r"^\{.*\}$", DEBUGGING, re.MULTILINE))
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

    rows = DEBUGGING.split("| Field | Meaning |")[1].split("\n\n")[0]
    explained = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+?) \|", rows, re.MULTILINE)))
    )
    written = {field for line in real for field in line}
    of_kubernetes = {"event", "log_level", "controller", "kind", "namespace", "name"}
    assert written - of_kubernetes <= explained
