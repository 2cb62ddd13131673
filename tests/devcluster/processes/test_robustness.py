"""The process kubelet when something goes wrong, or somebody is faster."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from types import SimpleNamespace

import pytest

from controller.kube.errors import NotFound
from controller.kube.objects import ObjectMeta
from controller.kube.resources import CLAIMS
from controller.testing.faults import ErrorResponse, LostResponse, Refused, Rule
from devcluster.nodes.containers import waiting
from devcluster.nodes.pods import PODS
from devcluster.processes import container as container_module
from devcluster.processes.container import ContainerRuns
from devcluster.processes.container_process import GracePeriod
from devcluster.processes.pod_managers import ContainerContext
from devcluster.processes.specification import ContainerSpecification
from devcluster.processes.specification import SpecifiedPod as WholePod
from tests.devcluster.processes.conftest import sh, wall
from tests.devcluster.processes.machines import exists

MOUNT = {"name": "v", "mountPath": "/v"}


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


FOREVER = "echo $$$$; trap '' TERM; while :; do sleep 0.05; done"


async def first_line(world, name: str, container: str = "main") -> str:
    """What a container says first, as soon as it has said it."""
    await world.until(name, lambda pod: pod.status.phase == "Running")
    uid = (await world.pod(name)).metadata.uid
    output = world.outputs.find(uid, container)
    while not output.end:
        await output.next_change()
    return await world.log(name)


@pytest.mark.real_time
async def test_nothing_survives_the_kubelet(world):
    async with world.node():
        await world.create("a", sh(FOREVER))
        pid = int(await first_line(world, "a"))
        assert is_alive(pid)
    assert not is_alive(pid)
    assert not world.isolation.sandboxes


def statuses(pod):
    return pod.status.container_statuses


def again(pod) -> bool:
    return pod.status.container_statuses[0].restart_count > 0


@pytest.mark.slow
@pytest.mark.real_time
async def test_a_pod_that_is_deleted_at_once_goes_at_once(world):
    async with world.node():
        for _ in range(3):
            await world.create("a", sh(FOREVER), initContainers=[sh(FOREVER, name="init")])
            with suppress(NotFound):
                await world.delete("a", grace=0)
            await world.gone("a")
        await world.create("b", sh(FOREVER))
        await world.until("b", lambda pod: pod.spec.node_name)
        await world.delete("b", grace=1)
        await world.gone("b")
    assert not world.isolation.sandboxes


@pytest.mark.real_time
async def test_a_pod_that_vanishes_is_killed_at_once(world):
    async with world.node():
        await world.create("a", sh(FOREVER), terminationGracePeriodSeconds=600)
        pid = int(await first_line(world, "a"))
        await world.delete("a", grace=0)
        await world.create("a", sh("echo the second"))
        await world.phase("a", "Succeeded")
        assert await world.log("a") == "the second\n"
        async with asyncio.timeout(60):  # a tenth of the grace period that it has no more
            while is_alive(pid):  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.real_time
async def test_a_grace_period_can_be_shortened(world):
    async with world.node():
        await world.create("a", sh(FOREVER))
        await first_line(world, "a")
        await world.delete("a", grace=600)
        await asyncio.sleep(0.1)
        await world.delete("a", grace=1)
        await world.gone("a")


@pytest.mark.slow
@pytest.mark.real_time
async def test_finalizers_hold_a_pod_that_runs_no_more(world):
    async with world.node():
        await world.create("a", sh(FOREVER), finalizers=["x.io/held"])
        await first_line(world, "a")
        await world.delete("a", grace=1)
        pod = await world.phase("a", "Failed")
        assert pod.status.container_statuses[0].state.terminated.exit_code == 137
        await world.until("a", lambda pod: pod.metadata.deletion_grace_period_seconds == 0)
        await world.user.merge_patch(PODS, "default", "a", {"metadata": {"finalizers": None}})
        await world.gone("a")


@pytest.mark.real_time
async def test_a_place_that_cannot_be_made_is_tried_again(world, monkeypatch):
    monkeypatch.setattr("devcluster.processes.pod_worker._SANDBOX_RETRY", 0.1)
    world.isolation.refusals.append(OSError("no more addresses"))
    async with world.node():
        await world.create("a", sh("true"))
        await world.phase("a", "Succeeded")
        expected = ("FailedCreatePodSandBox", "Failed to create pod sandbox: no more addresses")
        assert expected in await world.events("a")


@pytest.mark.real_time
@pytest.mark.parametrize(
    "fault",
    [
        LostResponse(),
        Refused(),
        ErrorResponse(500, "InternalError"),
        ErrorResponse(409, "Conflict"),
    ],
)
async def test_an_api_server_that_fails_now_and_then_delays_but_does_not_confuse(
    world, fault, monkeypatch
):
    monkeypatch.setattr("devcluster.processes.pod_managers.API_RETRY", 0.1)
    world.rules = [Rule(fault, resource="pods", verbs=WRITES, skip=n, times=1) for n in (1, 3, 5)]
    async with world.node():
        await world.create("a", sh("echo 1; exit 1"), restartPolicy="OnFailure")
        await world.until("a", lambda pod: pod.status.container_statuses and again(pod))
        await world.delete("a")
        await world.gone("a")
    assert not world.isolation.sandboxes


WRITES = frozenset({"patch", "delete"})


@pytest.mark.real_time
async def test_what_others_write_meanwhile_stays(world):
    async with world.node():
        await world.create("a", sh(FOREVER), finalizers=["x.io/held"])
        pod = await world.until("a", lambda pod: pod.status.is_true("Ready"))
        conditions = [{"type": c.type, "status": c.status} for c in pod.status.conditions]
        more = {"status": {"conditions": [*conditions, {"type": "x.io/y", "status": "True"}]}}
        await world.user.merge_patch(PODS, "default", "a", more, subresource="status")
        await world.delete("a", grace=1)
        pod = await world.phase("a", "Failed")
        assert pod.status.is_true("x.io/y")


@pytest.mark.real_time
async def test_a_program_that_is_not_there_is_named(world):
    async with world.node():
        await world.create("a", {"name": "main", "image": "python", "command": ["no-such-thing"]})
        pod = await world.phase("a", "Failed")
    end = pod.status.container_statuses[0].state.terminated
    assert (end.exit_code, end.reason, end.message) == (
        128,
        "StartError",
        "no-such-thing: not found",
    )


@pytest.mark.real_time
async def test_a_missing_volume_is_waited_for(world):
    async with world.node():
        await world.create(
            "a",
            sh("cat /v/key", volumeMounts=[MOUNT]),
            volumes=[{"name": "v", "configMap": {"name": "c"}}],
        )
        pod = await world.until("a", lambda pod: pod.status.container_statuses)
        assert pod.status.container_statuses[0].state.waiting.reason == "ContainerCreating"
        await world.configure("other", key="no")
        await world.configure("c", key="old\n")
        await world.phase("a", "Succeeded")
        assert await world.log("a") == "old\n"
        text = 'MountVolume.SetUp failed for volume "v" : configmap "c" not found'
        assert ("FailedMount", text) in await world.events("a")


@pytest.mark.real_time
async def test_a_claim_keeps_what_pods_wrote_until_it_is_deleted(world):
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "kept", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "kept"}}]
    async with world.node():
        for name, script in (("a", "echo kept >/v/file"), ("b", "cat /v/file")):
            await world.create(name, sh(script, volumeMounts=[MOUNT]), volumes=volumes)
            if name == "a":
                await world.user.create(CLAIMS, "default", claim)
            await world.phase(name, "Succeeded")
        assert await world.log("b") == "kept\n"
        kept = await world.user.get_raw(CLAIMS, "default", "kept")
        assert kept["status"]["phase"] == "Bound"
        folder = world.folder / "claims" / kept["metadata"]["uid"]
        assert exists(folder)
        for name in ("a", "b"):
            await world.delete(name)
        await world.user.delete(CLAIMS, "default", "kept")
        async with asyncio.timeout(60):
            while exists(folder):  # noqa: ASYNC110 - a disk tells nobody
                await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.real_time
async def test_a_pod_past_its_deadline_fails(world):
    async with world.node():
        await world.create("a", sh("exec sleep 60"), activeDeadlineSeconds=1)
        pod = await world.phase("a", "Failed")
    assert pod.status.reason == "DeadlineExceeded"
    assert pod.status.container_statuses[0].state.terminated.exit_code == 143


@pytest.mark.real_time
async def test_last_words_come_from_the_file_or_from_the_log(world):
    fallback = "FallbackToLogsOnError"
    async with world.node():
        await world.create("file", sh("printf words >/dev/termination-log; exit 3"))
        log = sh("echo logged; exit 3", terminationMessagePolicy=fallback)
        await world.create("log", log)
        for name, message in (("file", "words"), ("log", "logged")):
            pod = await world.phase(name, "Failed")
            assert pod.status.container_statuses[0].state.terminated.message == message


@pytest.mark.slow
@pytest.mark.real_time
async def test_what_the_kubelet_kills_itself_was_not_short_of_memory(world, monkeypatch):
    kills = iter(range(9))
    monkeypatch.setattr(container_module, "oom_kills", lambda: next(kills))
    async with world.node():
        await world.create("a", sh(FOREVER), finalizers=["x.io/held"])
        await first_line(world, "a")
        await world.delete("a", grace=1)
        pod = await world.phase("a", "Failed")
    assert statuses(pod)[0].state.terminated.reason == "Error"


@pytest.mark.real_time
@pytest.mark.parametrize(("kills", "reason"), [([0, 0], "Error"), ([0, 1], "OOMKilled")])
async def test_a_kill_for_lack_of_memory_is_told_from_others(world, monkeypatch, kills, reason):
    monkeypatch.setattr(container_module, "oom_kills", lambda: kills.pop(0))
    async with world.node():
        await world.create("a", sh("kill -9 $$$$"))
        pod = await world.phase("a", "Failed")
    end = pod.status.container_statuses[0].state.terminated
    assert (end.exit_code, end.reason) == (137, reason)


class Ended(SimpleNamespace):
    """A run that ends when its future does."""

    start_error = ""

    async def close(self) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("steps", range(8))
async def test_no_moment_is_wrong_to_stop_watching_a_container(steps):
    container = ContainerSpecification(name="main")
    pod = WholePod(metadata=ObjectMeta(name="a"))
    settings = SimpleNamespace(crash_back_off=9.0, crash_back_off_cap=9.0)
    events = SimpleNamespace(record=lambda *_, **__: None)
    shop = SimpleNamespace(settings=settings, wall=wall, events=events)
    around = SimpleNamespace(pod_ip="")
    home = ContainerContext(shop, pod, None, around, None, lambda: None)
    runs = ContainerRuns(home, container, waiting(container, "ContainerCreating"))
    run = runs._run = Ended(exited=asyncio.get_running_loop().create_future())
    watching = asyncio.create_task(runs._watch(run))
    await asyncio.sleep(1)
    run.exited.set_result(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    is_too_late = not watching.cancel()
    await asyncio.wait({watching})
    assert watching.cancelled() or is_too_late


async def test_a_grace_ends_when_it_is_over_or_shortened():
    loop = asyncio.get_running_loop()
    never = loop.create_future()
    began = loop.time()
    assert await GracePeriod(5).passes_before(never)
    assert loop.time() - began == pytest.approx(5, abs=0.01)
    grace = GracePeriod(100)
    loop.call_later(1, grace.shorten, 2)
    assert await grace.passes_before(never)
    assert loop.time() - began == pytest.approx(8, abs=0.01)
    assert await grace.passes_before(never, least=2)
    assert loop.time() - began == pytest.approx(10, abs=0.01)
    loop.call_later(1, never.set_result, None)
    assert not await GracePeriod(5).passes_before(never)
    assert not await GracePeriod(0).passes_before(never)
