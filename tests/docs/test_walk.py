"""The walk of docs/debugging.md is the way that an edit takes."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

from controller.ray.api.raycluster import RAYCLUSTERS
from tests.docs.tree import ROOT
from tests.integration.harness import embedded_world

PAGE = (ROOT / "docs" / "debugging.md").read_text()


def steps() -> list[list[str]]:
    rows = re.findall(r"^\| \d+ \|.*\| (.+) \|$", PAGE, re.MULTILINE)
    return [re.findall(r"`([\w/]+\.py)", row) for row in rows]


async def test_an_edit_of_replicas_enters_the_files_of_the_walk_in_its_order():
    entered: dict[str, int] = {}

    # What precedes the event is the request of the user.
    begin = str(ROOT / steps()[0][0])

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and (entered or name == begin):
            entered.setdefault(name, len(entered))

    async with embedded_world() as world:
        world.start_operator()
        await world.create_cluster(replicas=2)
        await world.eventually(world.is_ready)
        await world.settle(60)
        sys.setprofile(profile)
        try:
            path = "/spec/workerGroupSpecs/0/replicas"
            patch = [{"op": "replace", "path": path, "value": 3}]
            await world.user.json_patch(RAYCLUSTERS, "default", "example", patch)
            await world.settle(60)
        finally:
            sys.setprofile(None)
    walk = steps()
    assert len(walk) <= 10
    paths = [[str(ROOT / each) for each in files] for files in walk]
    assert [each for files in paths for each in files if each not in entered] == []
    first = [entered[files[0]] for files in paths[:-1]]  # the last comes back to a file of before
    assert first == sorted(first)
