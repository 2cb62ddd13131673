"""Pods as processes, from their start to their removal."""

from __future__ import annotations

import asyncio

import pytest

from tests.devcluster.processes.conftest import sh

pytestmark = pytest.mark.real_time


async def test_a_pod_runs_to_its_end_and_says_so(world):
    async with world.node():
        await world.create("a", sh("echo hello; echo oops >&2"))
        pod = await world.phase("a", "Succeeded")
        assert sorted((await world.log("a")).split()) == ["hello", "oops"]
    (status,) = pod.status.container_statuses
    assert (status.state.terminated.exit_code, status.state.terminated.reason) == (0, "Completed")
    assert not status.ready
    conditions = {c.type: (c.status, c.reason) for c in pod.status.conditions}
    assert conditions["Ready"] == ("False", "PodCompleted")
    assert conditions["Initialized"] == ("True", "PodCompleted")
    assert pod.status.pod_ip == "127.0.0.1"


async def test_the_whole_of_it(world):
    await world.configure("settings", word="from the map", file="line\n")
    async with world.node():
        await world.create(
            "a",
            sh(
                "cat /etc/settings/file /shared/made; echo $WORD $POD; >/shared/ok; exec sleep 9",
                env=[
                    {
                        "name": "WORD",
                        "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "word"}},
                    },
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                volumeMounts=[
                    {"name": "settings", "mountPath": "/etc/settings"},
                    {"name": "shared", "mountPath": "/shared"},
                ],
                readinessProbe={
                    "exec": {"command": ["test", "-e", "/shared/ok"]},
                    "periodSeconds": 1,
                },
            ),
            initContainers=[
                sh(
                    "echo made >/shared/made",
                    name="init",
                    volumeMounts=[{"name": "shared", "mountPath": "/shared"}],
                )
            ],
            volumes=[
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "shared", "emptyDir": {}},
            ],
        )
        pod = await world.until("a", lambda pod: pod.status.is_true("Ready"))
        assert pod.status.phase == "Running"
        assert await world.log("a", container="main") == "line\nmade\nfrom the map a\n"
        await world.delete("a", grace=1)
        await world.gone("a")


async def test_init_containers_run_one_after_the_other(world):
    async with world.node():
        mounts = [{"name": "v", "mountPath": "/v"}]
        await world.create(
            "a",
            sh("cat /v/order", volumeMounts=mounts),
            initContainers=[
                sh(
                    "until test -e /v/go; do sleep 0.05; done; echo 1 >>/v/order",
                    name="one",
                    volumeMounts=mounts,
                ),
                sh("echo 2 >>/v/order", name="two", volumeMounts=mounts),
            ],
            volumes=[{"name": "v", "emptyDir": {}}],
        )
        pod = await world.until("a", lambda pod: pod.status.init_container_statuses)
        assert pod.status.phase == "Pending"
        condition = pod.status.condition("Initialized")
        assert (condition.status, condition.reason) == ("False", "ContainersNotInitialized")
        pod = await world.until(
            "a", lambda pod: pod.status.init_container_statuses[0].state.running
        )
        assert not pod.status.init_container_statuses[0].ready
        (world.folder_of(pod) / "go").touch()
        await world.phase("a", "Succeeded")
        assert await world.log("a", container="main") == "1\n2\n"


async def test_a_failed_init_container_fails_a_pod_that_is_never_restarted(world):
    async with world.node():
        await world.create("a", sh("true"), initContainers=[sh("exit 3", name="init")])
        pod = await world.phase("a", "Failed")
    assert pod.status.init_container_statuses[0].state.terminated.exit_code == 3
    assert pod.status.container_statuses[0].state.waiting.reason == "PodInitializing"


@pytest.mark.slow
async def test_a_crashing_container_is_restarted_with_pauses(world):
    script = "echo >>/v/r; n=$(wc -l </v/r); echo run $n; test $n = 3 && exec sleep 60; exit 1"
    async with world.node(crash_back_off=1.0, crash_back_off_cap=1.0):
        await world.create(
            "a", sh(script, volumeMounts=[MOUNT]), volumes=[VOLUME], restartPolicy="Always"
        )
        pod = await world.until(
            "a",
            lambda pod: (
                pod.status.container_statuses
                and pod.status.container_statuses[0].restart_count == 1
                and pod.status.container_statuses[0].state.waiting
            ),
        )
        (status,) = pod.status.container_statuses
        assert status.state.waiting.reason == "CrashLoopBackOff"
        assert "back-off 1s restarting failed container=main pod=a_default(" in (
            status.state.waiting.message
        )
        assert status.last_state.terminated.exit_code == 1
        assert pod.status.phase == "Running"
        assert await world.log("a", previous="true") == "run 2\n"
        await world.until(
            "a",
            lambda pod: (
                pod.status.container_statuses[0].restart_count == 2
                and pod.status.container_statuses[0].state.running
            ),
        )
        assert await world.log("a", previous="true") == "run 2\n"


async def test_on_failure_only_failures_are_restarted(world):
    async with world.node():
        await world.create(
            "a",
            sh("test -e /v/again || { touch /v/again; exit 1; }", volumeMounts=[MOUNT]),
            volumes=[VOLUME],
            restartPolicy="OnFailure",
        )
        pod = await world.phase("a", "Succeeded")
    assert pod.status.container_statuses[0].restart_count == 1


MOUNT = {"name": "v", "mountPath": "/v"}
VOLUME = {"name": "v", "emptyDir": {}}


async def test_a_sidecar_outlives_init_containers_and_ends_after_the_containers(world):
    async with world.node():
        await world.create(
            "a",
            sh("sleep 0.2; cat /v/log", volumeMounts=[MOUNT]),
            initContainers=[
                sh(
                    "trap 'echo ended; kill $!; exit 0' TERM; echo up >>/v/log; sleep 9 & wait",
                    name="side",
                    restartPolicy="Always",
                    volumeMounts=[MOUNT],
                ),
                sh("sleep 0.1; echo after >>/v/log", name="init", volumeMounts=[MOUNT]),
            ],
            volumes=[VOLUME],
        )
        pod = await world.until(
            "a", lambda pod: pod.status.phase == "Succeeded" and not world.isolation.sandboxes
        )
        assert await world.log("a", container="main") == "up\nafter\n"
        assert await world.log("a", container="side") == "ended\n"
    assert pod.status.init_container_statuses[0].state.terminated.exit_code == 0


@pytest.mark.slow
async def test_deletion_gives_time_and_then_kills(world):
    async with world.node():
        await world.create(
            "kind", sh("trap 'echo bye; kill $!; exit 0' TERM; echo up; sleep 9 & wait")
        )
        await world.create("stubborn", sh("trap '' TERM; echo up; while :; do sleep 0.1; done"))
        await _when_up(world, "kind")
        await _when_up(world, "stubborn")
        last = asyncio.create_task(world.log("kind", follow="true"))
        await asyncio.sleep(0)
        await world.delete("kind")
        await world.gone("kind")
        assert (await last).endswith("bye\n")
        began = world.loop.time()
        await world.delete("stubborn", grace=1)
        await world.gone("stubborn")
        assert 0.9 < world.loop.time() - began < 10
    assert not world.isolation.sandboxes


async def _when_up(world, name: str) -> None:
    await world.until(name, lambda pod: pod.status.phase == "Running")
    assert await world.log(name, follow="true", limitBytes="3") == "up\n"


async def test_an_unknown_image_names_the_remedy(world):
    async with world.node():
        await world.create("a", {"name": "main", "image": "docker.io/library/redis:7"})
        pod = await world.until(
            "a",
            lambda pod: (
                pod.status.container_statuses
                and pod.status.container_statuses[0].state.waiting.reason == "ImagePullBackOff"
            ),
        )
        message = pod.status.container_statuses[0].state.waiting.message
        assert "--image redis=PATH" in message or "--image docker.io/library/redis=PATH" in message
        assert pod.status.phase == "Pending"
        await world.delete("a")
        await world.gone("a")


async def test_a_missing_secret_is_waited_for(world):
    async with world.node():
        reference = {"secretKeyRef": {"name": "pass", "key": "word"}}
        await world.create("a", sh("echo $WORD", env=[{"name": "WORD", "valueFrom": reference}]))
        pod = await world.until(
            "a",
            lambda pod: (
                pod.status.container_statuses
                and pod.status.container_statuses[0].state.waiting.message
            ),
        )
        waiting = pod.status.container_statuses[0].state.waiting
        assert waiting.reason == "CreateContainerConfigError"
        assert waiting.message == 'secret "pass" not found'
        await world.hide("pass", word="open")
        await world.phase("a", "Succeeded")
        assert await world.log("a") == "open\n"
