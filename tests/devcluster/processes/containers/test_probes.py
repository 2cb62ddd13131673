"""Probes and hooks of real processes."""

from __future__ import annotations

import asyncio

import pytest

from tests.devcluster.processes.conftest import sh

pytestmark = pytest.mark.real_time

MOUNT = {"name": "v", "mountPath": "/v"}
VOLUME = {"name": "v", "emptyDir": {}}


def ready(pod) -> bool:
    return pod.status.is_true("Ready")


def exec_probe(script: str, **numbers):
    return {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 1, **numbers}


@pytest.fixture
async def port():
    """A server on a free port: good with the right header at /good."""

    async def answer(reader, writer):
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # a TCP probe
            writer.close()
            return
        is_good = request.startswith(b"GET /good ") and b"\r\nX-Who: kubelet\r\n" in request
        status = b"302 Found\r\nLocation: /bad" if is_good else b"503 Busy"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_http_and_tcp_probes_reach_the_pod(world, port):
    headers = [{"name": "X-Who", "value": "kubelet"}]
    async with world.node():
        await world.create(
            "good",
            sh(
                "exec sleep 60",
                ports=[{"name": "web", "containerPort": port}],
                startupProbe={"tcpSocket": {"port": "web"}, "periodSeconds": 1},
                readinessProbe={
                    "httpGet": {"port": "web", "path": "/good", "httpHeaders": headers},
                    "periodSeconds": 1,
                },
            ),
        )
        await world.until("good", ready)
        await world.create(
            "bad",
            sh(
                "exec sleep 60",
                readinessProbe={"httpGet": {"port": port, "path": "/bad"}, "periodSeconds": 1},
            ),
        )
        expected = ("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
        await said(world, "bad", expected)
        assert not ready(await world.pod("bad"))


async def said(world, pod: str, event: tuple[str, str]) -> None:
    table = world.server.store.table("events")
    async with asyncio.timeout(60):
        while event not in await world.events(pod):
            await table.next_change()


@pytest.mark.slow
async def test_readiness_comes_and_goes(world):
    probe = exec_probe("test ! -e /v/busy", failureThreshold=1)
    async with world.node():
        await world.create(
            "a",
            sh("exec sleep 60", readinessProbe=probe, volumeMounts=[MOUNT]),
            volumes=[VOLUME],
        )
        busy = world.folder_of(await world.until("a", ready)) / "busy"
        busy.touch()
        pod = await world.until("a", lambda pod: not ready(pod))
        assert pod.status.phase == "Running"
        assert pod.status.container_statuses[0].started
        busy.unlink()
        await world.until("a", ready)


async def test_a_failed_liveness_probe_restarts_the_container(world):
    probe = exec_probe("test -e /v/ok", failureThreshold=1, initialDelaySeconds=0)
    script = "test -e /v/first && touch /v/ok; touch /v/first; exec sleep 60"
    async with world.node():
        await world.create(
            "a",
            sh(script, livenessProbe=probe, volumeMounts=[MOUNT]),
            volumes=[VOLUME],
            restartPolicy="Always",
        )
        pod = await world.until(
            "a", lambda pod: ready(pod) and pod.status.container_statuses[0].restart_count == 1
        )
        assert pod.status.container_statuses[0].last_state.terminated.exit_code == 143
        reason = ("Killing", "Container main failed liveness probe, will be restarted")
        await said(world, "a", reason)


async def test_other_probes_wait_for_the_startup_probe(world):
    startup = exec_probe("test -e /v/up", failureThreshold=9)
    liveness = exec_probe("test -e /v/up", failureThreshold=1)
    async with world.node():
        await world.create(
            "a",
            sh(
                "exec sleep 60",
                startupProbe=startup,
                livenessProbe=liveness,
                volumeMounts=[MOUNT],
            ),
            volumes=[VOLUME],
        )
        pod = await world.until("a", lambda pod: pod.status.phase == "Running")
        assert not pod.status.container_statuses[0].started
        (world.folder_of(pod) / "up").touch()
        pod = await world.until("a", ready)
        assert pod.status.container_statuses[0].restart_count == 0


@pytest.mark.slow
async def test_a_probe_that_takes_too_long_has_failed(world):
    probe = exec_probe("sleep $(LONG)", timeoutSeconds=1)
    async with world.node():
        long = [{"name": "LONG", "value": "9"}]
        await world.create("a", sh("exec sleep 60", readinessProbe=probe, env=long))
        await said(world, "a", ("Unhealthy", "Readiness probe failed: command timed out after 1s"))


async def test_hooks_run_beside_the_container(world):
    lifecycle = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo post >>/v/log"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo pre >>/v/log"]}},
    }
    script = "trap 'cat /v/log; exit 0' TERM; while :; do sleep 0.05; done"
    async with world.node():
        await world.create(
            "a",
            sh(script, lifecycle=lifecycle, volumeMounts=[MOUNT]),
            volumes=[VOLUME],
        )
        await world.until("a", ready)
        following = asyncio.create_task(world.log("a", follow="true"))
        await asyncio.sleep(0)
        await world.delete("a")
        assert await following == "post\npre\n"
        await world.gone("a")


async def test_a_failed_post_start_hook_ends_the_container(world):
    lifecycle = {"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}}}
    async with world.node():
        await world.create("a", sh("exec sleep 60", lifecycle=lifecycle))
        await world.phase("a", "Failed")
        await said(world, "a", ("FailedPostStartHook", "PostStartHook failed: no"))


async def test_probes_may_come_sooner_than_they_say(world):
    slow = exec_probe("true", initialDelaySeconds=600, periodSeconds=600)
    second = exec_probe("test -e /v/seen || { touch /v/seen; false; }", periodSeconds=600)
    async with world.node(probe_pace=0.001):
        mounts = {"volumeMounts": [MOUNT], "startupProbe": second, "readinessProbe": slow}
        await world.create("p", sh("exec sleep 60", **mounts), volumes=[VOLUME])
        await world.until("p", ready)
