"""The tools of `benchmarks.side_by_side`; what it measures is nobody's business here."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.fake_kubelet import FakeKubelet
from benchmarks.side_by_side import (
    LABELS,
    ROOT,
    Figures,
    main,
    manta,
    parser,
    ray_cluster,
    table,
)
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import embedded_world

pytestmark = pytest.mark.embedded_only


async def test_the_fake_kubelet_makes_a_cluster_of_the_benchmark_ready():
    async with embedded_world(components=frozenset()) as world:
        kubelet = asyncio.create_task(FakeKubelet(world.client("kubelet")).run())
        world.start_operator()
        await world.user.create(RAYCLUSTERS, world.namespace, ray_cluster("c1"))
        await world.eventually(lambda: world.is_ready("c1"), seconds=60)
        pods = (await world.user.list(PODS, world.namespace)).items
        assert len({pod.status.pod_ip for pod in pods}) == 4
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)


class EndingWatches:
    """A client whose watches end after an event or two, until there are no more."""

    def __init__(self, *watches: list[dict[str, Any]]) -> None:
        self._watches = iter(watches)
        self.revisions: list[str] = []
        self.ended = asyncio.Event()
        self.reported: list[str] = []

    @asynccontextmanager
    async def stream(self, _path: str, query: dict[str, str]) -> AsyncGenerator[Any]:
        self.revisions.append(query["resourceVersion"])
        yield self._chunks(next(self._watches, None))

    async def _chunks(self, events: list[dict[str, Any]] | None) -> AsyncGenerator[bytes]:
        if events is None:
            self.ended.set()
            await asyncio.get_running_loop().create_future()
        for event in events or []:
            yield json.dumps(event).encode() + b"\n"
        await asyncio.sleep(0)

    async def merge_patch(self, *names: Any, **_rest: Any) -> None:
        self.reported.append(names[2])


async def test_the_fake_kubelet_reports_a_pod_once_although_its_watch_ends_again_and_again():
    def event(name: str, revision: str, phase: str = "Pending") -> dict[str, Any]:
        meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": revision}
        kind = "ADDED" if phase == "Pending" else "MODIFIED"
        return {"type": kind, "object": {"metadata": meta, "status": {"phase": phase}}}

    client = EndingWatches(
        [event("a", "9"), event("b", "5")],
        [event("b", "5"), event("a", "9"), event("b", "11", "Running")],
        [event("c", "12")],
        [{"type": "ERROR", "object": {"metadata": {}, "code": 410}}],
    )
    kubelet = asyncio.create_task(FakeKubelet(cast("Any", client)).run())
    await client.ended.wait()
    kubelet.cancel()
    await asyncio.gather(kubelet, return_exceptions=True)
    assert client.reported == ["a", "b", "c"]
    assert client.revisions == ["0", "0", "11", "11", "0"], "a first watch may lack some pods"


def test_the_operator_is_compiled_before_its_start_is_measured(monkeypatch: Any):
    commands: list[list[str]] = []

    def note(command: list[str], **_rest: Any) -> None:
        commands.append(command)

    monkeypatch.setattr(subprocess, "run", note)
    assert manta("/usr/bin/other").command("a", "b")[0] == "/usr/bin/other"
    [[python, _, tool, _, *packages]] = commands
    assert (python, tool) == ("/usr/bin/other", "compileall")
    assert {path.name for path in ROOT.iterdir() if path.joinpath("py.typed").exists()} == {
        Path(each).name for each in packages
    }


def test_the_table_has_a_row_for_each_figure_and_ratios_of_two_operators():
    ours, theirs = (Figures(*[value] * len(LABELS)) for value in (1.0, 4.0))
    rows = table({"Manta": ours, "KubeRay": theirs}).splitlines()
    assert rows[0].split() == ["Manta", "KubeRay", "ratio"]
    assert [row.split()[-3:] for row in rows[1:]] == [["1.00", "4.00", "0.25"]] * len(LABELS)
    assert table({"Manta": ours}).splitlines()[0].split() == ["Manta"]


def test_a_figure_of_zero_has_no_ratio():
    zero, one = (Figures(*[value] * len(LABELS)) for value in (0.0, 1.0))
    assert table({"a": one, "b": zero}).splitlines()[1].split()[-2:] == ["1.00", "0.00"]


def test_without_an_api_server_it_says_what_is_missing(monkeypatch: Any, capsys: Any):
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nonexistent")
    assert main(["--clusters", "1"]) == 2
    assert "kube-apiserver" in capsys.readouterr().err
    assert "KUBERAY_OPERATOR" in parser().format_help()
