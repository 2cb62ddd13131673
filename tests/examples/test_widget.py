"""The kind that docs/adding-a-kind.md walks through works as the page says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.kube.client import Client
from controller.kube.objects import ConfigMap
from controller.kube.resources import CONFIG_MAPS, CRDS
from controller.runtime.plan import Plan
from controller.runtime.settings import Settings
from examples.kinds.widget.api import WIDGETS, Widget
from examples.kinds.widget.kind import SCOPE, WidgetKind
from examples.kinds.widget.operator import widget_operator
from tests.fakes.reads import FakeReads
from tests.fakes.worlds import EPOCH, embedded_server, virtual_wall

FOLDER = Path(__file__).parents[2] / "examples" / "kinds" / "widget"


def manifest(name: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / name).read_text())


@asynccontextmanager
async def running_operator() -> AsyncIterator[Client]:
    async with embedded_server() as server:
        loop = asyncio.get_running_loop()
        user = Client(server, user_agent="user", clock=loop)
        await user.create(CRDS, "", manifest("crd.yaml"))
        operator = widget_operator(
            Client(server, user_agent="widget-operator", clock=loop),
            Settings(metrics_address="", health_address=""),
            wall=virtual_wall,
            rng=random.Random(2),
        )
        stop = asyncio.Event()
        task = asyncio.create_task(operator.run(stop))
        try:
            yield user
        finally:
            stop.set()
            assert await task == 0


async def ready_reason(user: Client) -> str:
    widget = await user.get(WIDGETS, "default", "hello")
    return next((c["reason"] for c in widget.status.conditions if c["type"] == "Ready"), "")


async def copies(user: Client) -> dict[str, ConfigMap]:
    listed = await user.list(CONFIG_MAPS, "default", label_selector="example.dev/widget")
    return {copy.metadata.name: copy for copy in listed.items}


def plan(*, pending: frozenset[str] = frozenset()) -> Plan:
    """What the kind would do about the example, of which nothing exists yet."""
    widget = msgspec.convert(manifest("widget.yaml"), Widget)
    metadata = msgspec.structs.replace(widget.metadata, namespace="default", uid="uid-hello")
    reads = FakeReads(WidgetKind(), pending=pending).add(
        WIDGETS, msgspec.structs.replace(widget, metadata=metadata)
    )
    seen = WidgetKind().observe("default/hello", reads)
    assert seen is not None
    return WidgetKind().plan(seen, EPOCH)


def test_missing_copies_are_planned():
    assert [write.target.name for write in plan().stages[0]] == ["hello-0", "hello-1", "hello-2"]


def test_nothing_is_planned_while_a_write_has_an_unknown_outcome():
    assert plan(pending=frozenset({SCOPE})).stages == ((),)


async def test_a_widget_gets_its_copies_follows_its_spec_and_says_what_is_wrong():
    async with running_operator() as user:
        await user.create(WIDGETS, "default", manifest("widget.yaml"))
        await asyncio.sleep(5)
        assert sorted(await copies(user)) == ["hello-0", "hello-1", "hello-2"]
        assert await ready_reason(user) == "Complete"

        await user.merge_patch(WIDGETS, "default", "hello", {"spec": {"copies": 1, "text": "Hi"}})
        await asyncio.sleep(5)
        assert {name: copy.data for name, copy in (await copies(user)).items()} == {
            "hello-0": {"text": "Hi"}
        }

        await user.merge_patch(WIDGETS, "default", "hello", {"spec": {"copies": -1}})
        await asyncio.sleep(5)
        assert await ready_reason(user) == "InvalidWidgetSpec"
        assert sorted(await copies(user)) == ["hello-0"], "a wrong specification deletes nothing"


@pytest.mark.parametrize("path", ["api.py", "kind.py", "operator.py"])
def test_the_example_stays_small(path: str):
    assert len((FOLDER / path).read_text().splitlines()) < 200
