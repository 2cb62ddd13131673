"""`manta status` beside an operator, and of clusters that have none of Manta's conditions."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from rich.console import Console

from controller.apimachinery.conditions import find_condition, is_true
from controller.command.development.dev import live_overview, picture
from controller.command.status.reading import EVENTS, KINDS, read, watching
from controller.command.status.run import StatusOptions, print_status
from controller.kube.errors import KubeError
from controller.kube.resources import CRDS
from controller.ray.api import RAYCLUSTERS
from devcluster.apiserver import Attributes
from tests.integration.harness import World, example_cluster
from tests.integration.rays import Rays

AGENT = "a-reader"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def shown(
    world: World, *target: str, stream: io.StringIO | None = None, status: int = 0, **more: Any
) -> str:
    stream = stream or io.StringIO()
    options = StatusOptions(target, **more)
    client = world.client(AGENT)
    assert await print_status(client, world.namespace, options, stream, world.wall) == status
    return stream.getvalue()


async def ill_cluster(world: World) -> str:
    """A cluster whose workers cannot pull their image; returns its stored first cause."""
    manifest = example_cluster()
    template = manifest["spec"]["workerGroupSpecs"][0]["template"]
    template["metadata"] = {"annotations": {"sim.manta.dev/outcome": "image-pull-error"}}
    await world.user.create(RAYCLUSTERS, world.namespace, manifest)

    async def cause() -> str:
        conditions = (await world.cluster()).status.get("conditions") or []
        ready = find_condition(conditions, "Ready") or {}
        settled = is_true(conditions, "HeadPodReady") and ready.get("reason") == "ImagePullBackOff"
        return ready["message"] if settled else ""

    return await world.eventually(cause)


async def test_the_tree_of_a_cluster_has_the_stored_first_cause_and_that_of_each_pod(world: World):
    world.start_operator()
    cause = await ill_cluster(world)
    lines = (await shown(world, "raycluster/example")).splitlines()
    assert lines[0].startswith("raycluster/example: not ready, CPUs 3, GPUs 0, ")
    assert lines[1] == f"  cause: {cause}"
    assert "  head: 1 of 1 ready, CPUs 1, GPUs 0" in lines
    place = lines.index("  group workers: 0 of 2 ready, CPUs 2, GPUs 0")
    assert lines[place + 1].startswith("    pod/example-workers-worker-")
    assert ": ImagePullBackOff on manta-node-0, " in lines[place + 1]
    assert lines[place + 2].strip() in f"cause: {cause.removeprefix('group workers: ')}"
    events = lines[lines.index("events, the last at the end") :]
    assert any("raycluster/example   CreatedHeadPod" in each for each in events)


async def test_the_causes_of_a_cluster_without_our_conditions_are_found_from_its_pods(world: World):
    operator = world.start_operator()
    cause = await ill_cluster(world)
    await operator.kill()
    kuberay = {
        "type": "RayClusterProvisioned",
        "status": "False",
        "reason": "RayClusterPodsProvisioning",
        "message": "RayCluster Pods are being provisioned",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await world.user.merge_patch(
        RAYCLUSTERS,
        world.namespace,
        "example",
        {"status": {"conditions": [kuberay]}},
        subresource="status",
    )
    stored = " (and " if " (and " in cause else "\0"
    told = json.loads(await shown(world, "raycluster/example", output="json"))["object"]
    assert told["cause"] == cause.partition(stored)[0]
    table = await shown(world, "rayclusters")
    assert table.splitlines()[1].endswith("RayCluster Pods are being provisioned")


async def test_the_table_has_each_cluster_after_the_job_that_made_it(rays: Rays):
    rays.start_operator()
    await rays.create("train", submissionMode="K8sJobMode")
    await rays.world.create_cluster("a")
    status = await rays.reaches("Complete", name="train")
    await rays.world.eventually(lambda: rays.world.is_ready("a"))
    cluster = status["rayClusterName"]
    table = [line.split("   ") for line in (await shown(rays.world)).splitlines()]
    rows = [[cell.strip() for cell in row if cell.strip()] for row in table]
    assert rows[0] == ["OBJECT", "STATE", "AGE", "CPUS", "GPUS", "CAUSE"]
    assert [row[:2] for row in rows[1:]] == [
        ["raycluster/a", "ready"],
        ["rayjob/train", "Complete"],
        [f"raycluster/{cluster}", "ready"],
    ]
    everywhere = (await shown(rays.world, "rayjobs", all_namespaces=True)).splitlines()
    assert [line.split()[:2] for line in everywhere] == [
        ["NAMESPACE", "OBJECT"],
        [rays.world.namespace, "rayjob/train"],
    ]
    tree = await shown(rays.world, "rayjob", "train")
    assert tree.startswith("rayjob/train: Complete (job SUCCEEDED), CPUs 2, ")
    assert f"\n  raycluster/{cluster}: ready, CPUs 2, " in tree
    assert ": ended on manta-node-0, " in tree


async def test_a_terminal_gets_a_drawn_tree_and_a_pipe_plain_text(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("NO_COLOR", raising=False)
    world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    drawn = await shown(world, "raycluster/example", stream=Terminal())
    assert "├─ \x1b[32mhead: 1 of 1 ready" in drawn.replace("\x1b[32m├─ ", "├─ \x1b[32m")
    plain = await shown(world, "raycluster/example")
    assert not {"\x1b", "├", "│", "└"} & set(plain)


@asynccontextmanager
async def watched(
    world: World, *target: str, **more: Any
) -> AsyncIterator[tuple[io.StringIO, asyncio.Task[int]]]:
    stream = io.StringIO()
    options = StatusOptions(target, watch=True, **more)
    client = world.client(AGENT)
    task = asyncio.create_task(print_status(client, world.namespace, options, stream, world.wall))
    try:
        yield stream, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.embedded_only
async def test_a_watch_shows_each_change_without_asking_again_and_ends_with_the_object(
    world: World, capsys: pytest.CaptureFixture[str]
):
    world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    async with watched(world, "raycluster/example", output="json") as (stream, task):
        await world.eventually(stream.getvalue)
        await world.settle(5)
        lists = requests(world, "list")
        await world.scale(3)
        await world.eventually(lambda: '"ready":3' in stream.getvalue())
        await world.settle(3600)
        assert requests(world, "list") == lists
        before = stream.getvalue()
        await world.settle(3600)
        assert stream.getvalue() == before
        await world.user.delete(RAYCLUSTERS, world.namespace, "example")
        assert await task == 0
    for line in stream.getvalue().splitlines():
        assert json.loads(line)["object"]["name"] == "example"
    assert "raycluster/example is gone" in capsys.readouterr().err


def requests(world: World, verb: str) -> int:
    assert world.server is not None
    counted = world.server.audit.requests
    return sum(count for key, count in counted.items() if key[:2] == (AGENT, verb))


def refuse(world: World, resource: str, *verbs: str) -> None:
    def allows(asked: Attributes) -> bool:
        return asked.user_agent != AGENT or (asked.resource != resource or asked.verb not in verbs)

    assert world.server is not None
    world.server.audit.authorizer = allows


@pytest.mark.embedded_only
async def test_a_right_that_is_missing_is_named_and_the_rest_is_shown(
    world: World, capsys: pytest.CaptureFixture[str]
):
    world.start_operator()
    await world.create_cluster()
    await world.eventually(world.is_ready)
    refuse(world, "pods", "list")
    tree = await shown(world, "raycluster/example", status=1)
    assert "raycluster/example: ready" in tree
    told = capsys.readouterr().err
    assert "pods are not shown: the right to list and watch them in namespace default is" in told
    assert 'cannot list resource "pods"' in told
    refuse(world, "rayclusters", "list")
    assert await shown(world, "raycluster/example", status=1) == ""
    assert "rayclusters.ray.io are not shown" in capsys.readouterr().err


@pytest.mark.embedded_only
async def test_a_watch_that_is_refused_ends_with_the_right_that_is_missing(world: World):
    await world.create_cluster()
    refuse(world, "events", "watch")
    async with watched(world, "raycluster/example") as (_, task):
        with pytest.raises(KubeError, match=r"events.* are not shown: the right to list and watch"):
            async with asyncio.timeout(60):
                await task


@pytest.mark.embedded_only
async def test_kinds_that_the_server_does_not_serve_are_left_out(world: World):
    for plural in ("rayjobs.ray.io", "rayservices.ray.io", "raycronjobs.ray.io"):
        await world.user.delete(CRDS, "", plural)
    await world.create_cluster()
    assert "raycluster/example" in await shown(world)


async def test_an_object_that_does_not_exist_is_told_with_the_nearest_name(
    world: World, capsys: pytest.CaptureFixture[str]
):
    await world.create_cluster("training")
    assert await shown(world, "raycluster/trianing", status=1) == ""
    assert "; did you mean training?" in capsys.readouterr().err
    said = "there is none in namespace default; -A looks into all of them\n"
    assert await shown(world, "rayjobs") == said


# -- the live screen of `manta dev`: what stands on it, and that it is kept up to date -------------


async def screen(world: World) -> str:
    seen = await read(world.client(AGENT), [*KINDS, EVENTS], "")
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as captured:
        console.print(picture(seen, "a heading", world.wall()))
    return captured.get()


async def test_an_empty_cluster_has_the_heading_only(world: World):
    assert (await screen(world)).split() == ["a", "heading"]


async def test_objects_stand_there_with_state_and_first_cause_and_then_the_events(world: World):
    world.start_operator()
    await ill_cluster(world)
    await world.events_about("RayCluster", "example", "ImagePullBackOff")
    lines = (await screen(world)).splitlines()
    (row,) = [line for line in lines if line.startswith("default") and "not ready" in line]
    assert "raycluster/example" in row
    assert "group workers: pod example-workers-" in row
    events = lines[next(i for i, line in enumerate(lines) if line.startswith("last events")) :]
    assert any("ImagePullBackOff" in line for line in events)
    assert max(map(len, lines)) <= 160


async def test_many_objects_are_counted_instead_of_shown(world: World):
    for number in range(17):
        await world.create_cluster(f"c{number:02}")
    text = await screen(world)
    assert "raycluster/c14" in text
    assert "raycluster/c15" not in text
    assert "and 2 more; manta status -A shows all" in text


async def test_changes_appear_and_the_last_picture_stays(
    world: World, capsys: pytest.CaptureFixture[str]
):
    client = world.client(AGENT)
    nothing_yet = await read(client, [*KINDS, EVENTS], "")
    async with watching(client, nothing_yet, "") as watch, live_overview(watch, "a heading"):
        world.start_operator()
        await world.create_cluster()
        await world.eventually(world.is_ready)
        await asyncio.sleep(3)  # virtual seconds
    out = capsys.readouterr().out
    assert "raycluster/example" in out
    assert "ready" in out
