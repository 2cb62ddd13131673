"""The kubelet with pods that have networks, processes and files of their own. Needs root."""

from __future__ import annotations

import sys

import pytest

from tests.devcluster.processes.conftest import sh
from tests.devcluster.processes.machines import exists, needs_namespaces, opened

pytestmark = [pytest.mark.real_time, needs_namespaces]

SCRIPT = """
hostname; pwd; cat /data/made /etc/settings/word; echo; ls /tmp | grep mine; echo $IP; echo $$$$
touch /tmp/mine /written-by-a-pod
trap 'exit 7' TERM
while :; do sleep 0.05; done
"""
LISTEN = f"exec {sys.executable} -m http.server 8765"
PORT = {"httpGet": {"port": 8765, "path": "/"}, "periodSeconds": 1}


@pytest.mark.slow
async def test_a_pod_has_everything_for_itself(world):
    await world.configure("settings", word="settled")
    async with opened("namespaces") as isolation:
        world.isolation = isolation
        async with world.node():
            data = {"name": "data", "mountPath": "/data"}
            settings = {"name": "settings", "mountPath": "/etc/settings"}
            ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
            probe = {"exec": {"command": ["test", "-e", "/tmp/mine"]}, "periodSeconds": 1}
            await world.create(
                "a",
                sh(
                    SCRIPT,
                    workingDir="/nowhere/yet",
                    volumeMounts=[data, settings],
                    env=[ip],
                    readinessProbe=probe,
                ),
                initContainers=[
                    sh("echo made >/data/made; touch /tmp/mine", name="init", volumeMounts=[data])
                ],
                volumes=[
                    {"name": "data", "emptyDir": {"medium": "Memory"}},
                    {"name": "settings", "configMap": {"name": "settings"}},
                ],
            )
            pod = await world.until("a", lambda pod: pod.status.is_true("Ready"))
            lines = (await world.log("a", container="main")).splitlines()
            *said, address, pid = lines
            assert said == ["a", "/nowhere/yet", "made", "settled"]
            assert address == pod.status.pod_ip != isolation.host_ip
            assert int(pid) < 10
            assert not exists("/written-by-a-pod")
            assert not exists("/nowhere")
            await world.delete("a")
            await world.gone("a")


@pytest.mark.slow
async def test_two_pods_listen_on_the_same_port_and_are_probed_there(world):
    async with opened("namespaces") as isolation:
        world.isolation = isolation
        async with world.node():
            for name in ("a", "b"):
                await world.create(name, sh(LISTEN, readinessProbe=PORT))
            for name in ("a", "b"):
                await world.until(name, lambda pod: pod.status.is_true("Ready"))


@pytest.mark.slow
async def test_sigterm_and_its_exit_code_pass_the_supervisor(world):
    async with opened("namespaces") as isolation:
        world.isolation = isolation
        async with world.node():
            script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"
            await world.create("a", sh(script), finalizers=["x.io/held"])
            await world.create("b", {"name": "main", "image": "python", "command": ["not-there"]})
            await world.until("a", lambda pod: pod.status.phase == "Running")
            assert await world.log("a", follow="true", limitBytes="3") == "up\n"
            await world.delete("a")
            pod = await world.phase("a", "Failed")
            assert pod.status.container_statuses[0].state.terminated.exit_code == 7
            pod = await world.phase("b", "Failed")
            end = pod.status.container_statuses[0].state.terminated
            assert (end.exit_code, end.reason) == (128, "StartError")
            assert "not-there" in end.message
