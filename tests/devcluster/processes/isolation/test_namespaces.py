"""Pods in namespaces of their own. Needs root."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from devcluster.processes.cluster_dir import tagged_processes
from devcluster.processes.pod_sandbox import Mount
from tests.devcluster.processes.machines import (
    PYTHON,
    connects,
    container_dir,
    ended,
    exists,
    needs_namespaces,
    opened,
    outcome,
    pod,
    run,
    said,
    started,
    status_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.real_time, needs_namespaces]

_LISTEN = """
import socket
with socket.create_server(("", 8080)) as server:
    print("listening", flush=True)
    while True:
        connection, _ = server.accept()
        connection.sendall(socket.gethostname().encode())
        connection.close()
"""
_STUBBORN = "sleep 1000 & setsid sleep 1000 & echo ready; exec sleep 1000"


@pytest.fixture
async def isolation():
    async with opened("namespaces") as isolation:
        yield isolation


def namespace_here() -> str:
    return str(Path("/proc/self/ns/net").readlink())


async def asked(sandbox, ip: str) -> str:
    ask = f"import socket; print(socket.create_connection(({ip!r}, 8080)).recv(99).decode())"
    status, text = await run(sandbox, [PYTHON, "-c", ask])
    assert status == 0, text
    return text.strip()


async def test_pods_listen_on_the_same_port_and_reach_one_another(isolation):
    sandboxes = [await pod(isolation, name) for name in ("one", "two")]
    assert sandboxes[0].ip != sandboxes[1].ip
    servers = []
    for sandbox in sandboxes:
        servers.append(
            await started((await container_dir(sandbox)).command([PYTHON, "-c", _LISTEN]))
        )
        await said(servers[-1], "listening")
    assert await asked(sandboxes[0], sandboxes[1].ip) == "two"
    assert await asked(sandboxes[1], "127.0.0.1") == "two"
    reader, writer = await asyncio.open_connection(sandboxes[0].ip, 8080)
    assert await reader.read() == b"one"
    writer.close()
    for sandbox, server in zip(sandboxes, servers, strict=True):
        await isolation.close_pod(sandbox)
        await status_of(server)


async def test_other_users_of_this_machine_do_not_reach_pods(isolation):
    one = await pod(isolation)
    server = await started((await container_dir(one)).command([PYTHON, "-c", _LISTEN]))
    await said(server, "listening")
    _, writer = await asyncio.open_connection(one.ip, 8080)
    writer.close()
    assert not await connects(one.ip, 8080)
    await isolation.close_pod(one)
    await status_of(server)


async def test_a_pod_of_the_host_network_shares_this_machines_addresses(isolation):
    sandbox = await pod(isolation, host_network=True)
    assert sandbox.ip == isolation.host_ip
    _, own = await run(sandbox, ["readlink", "/proc/self/ns/net"])
    assert own.strip() == namespace_here()


async def test_a_container_has_its_own_tmp_and_writes_to_no_file_of_the_machine(isolation):
    sandbox = await pod(isolation)
    status, text = await run(sandbox, ["sh", "-c", "ls -A /tmp; echo new > /usr/written; ls /usr"])
    assert status == 0
    assert "written" in text.split()
    assert not exists("/usr/written")
    _, again = await run(sandbox, ["sh", "-c", "ls -A /tmp; ls /usr"])
    assert "written" not in again.split()


async def test_volumes_are_mounted_where_the_machine_has_no_folder(isolation, tmp_path):
    sandbox = await pod(isolation)
    volume = sandbox.root / "volume"
    volume.mkdir()
    (volume / "file").write_text("from the machine\n")
    mounts = [
        Mount(volume, "/home/nobody-has-this/deep/data"),
        Mount(volume / "file", "/home/nobody-has-this/deep/data/again", read_only=True),
        Mount(volume, "/read-only", read_only=True),
    ]
    script = (
        "pwd; cat data/file data/again; echo back > data/answer; "
        "echo x 2>/dev/null > /read-only/x || echo refused"
    )
    status, text = await run(
        sandbox, ["sh", "-c", script], cwd="/home/nobody-has-this/deep", mounts=mounts
    )
    assert (status, text.splitlines()) == (
        0,
        ["/home/nobody-has-this/deep", "from the machine", "from the machine", "refused"],
    ), text
    assert (volume / "answer").read_text() == "back\n"
    assert not exists("/home/nobody-has-this")


async def test_a_container_has_exactly_the_environment_it_is_given(isolation):
    sandbox = await pod(isolation)
    _, text = await run(sandbox, ["env"], env={"COLOUR": "red\nblue"})
    assert "COLOUR=red\nblue" in text
    assert "HOME=" not in text
    _, text = await run(sandbox, ["hostname"])
    assert text == "pod\n"


async def test_exit_statuses_are_those_of_a_container_runtime(isolation):
    sandbox = await pod(isolation)
    assert (await run(sandbox, ["sh", "-c", "exit 7"]))[0] == 7
    assert (await run(sandbox, ["sh", "-c", "kill -KILL $$; sh -c 'kill -KILL $PPID'; exit 3"]))[
        0
    ] == 3, "the first process of a container is immune against its own signals"
    missing = await container_dir(sandbox)
    assert (await outcome(missing.command(["no-such-program"])))[0] == 127
    assert missing.start_error() == "cannot run 'no-such-program': No such file or directory"


async def test_signals_reach_the_command(isolation):
    sandbox = await pod(isolation)
    script = "trap 'echo asked; exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    process = await started((await container_dir(sandbox)).command(["sh", "-c", script]))
    await said(process, "ready")
    process.send_signal(signal.SIGTERM)
    await said(process, "asked")
    assert await status_of(process) == 4


@pytest.mark.parametrize(
    "way", ["kill signal", "supervisor killed", "container closed", "pod closed"]
)
async def test_nothing_of_a_container_survives_it(isolation, way):
    sandbox = await pod(isolation)
    stubborn = await container_dir(sandbox)
    launch = stubborn.command(["sh", "-c", _STUBBORN])
    process = await started(launch)
    await said(process, "ready")
    assert len(list(tagged_processes(f"{stubborn.root}/"))) > 3
    if way == "kill signal":
        process.send_signal(launch.kill_signal)
        assert await status_of(process) == 137
    elif way == "supervisor killed":
        process.kill()
    elif way == "container closed":
        await stubborn.close()
    else:
        await isolation.close_pod(sandbox)
    await process.communicate()
    await ended(stubborn)


async def test_another_command_runs_beside_the_main_one_while_that_runs(isolation):
    sandbox = await pod(isolation)
    main = await container_dir(sandbox, env={"COLOUR": "red"})
    launch = main.command(["sh", "-c", "echo here > /tmp/note; echo ready; exec sleep 1000"])
    process = await started(launch)
    await said(process, "ready")
    look = ["sh", "-c", "cat /tmp/note; echo $COLOUR; hostname; exit 5"]
    assert await outcome(main.exec(look)) == (5, "here\nred\npod\n")
    process.send_signal(launch.kill_signal)
    await status_of(process)
    status, text = await outcome(main.exec(["true"]))
    assert (status, text) == (126, "the container's main process has ended\n")


async def test_names_reach_pods_that_run_already_and_pods_to_come(isolation):
    sandbox = await pod(isolation)
    main = await container_dir(sandbox)
    process = await started(main.command(["sh", "-c", "echo ready; exec sleep 1000"]))
    await said(process, "ready")
    isolation.publish({("default", "head"): ("10.96.1.2",)})
    resolve = ["getent", "hosts", "head.default.svc.cluster.local"]
    assert (await outcome(main.exec(resolve)))[1].split()[0] == "10.96.1.2"
    late = await pod(isolation, "late")
    assert (await run(late, ["getent", "hosts", "head"]))[1].split()[0] == "10.96.1.2"
    isolation.publish({})
    assert (await outcome(main.exec(resolve)))[0] == 2
    process.kill()
    await status_of(process)


async def test_an_unknown_name_is_refused_at_once(isolation):
    sandbox = await pod(isolation)
    unanswered = {"RES_OPTIONS": "timeout:30 attempts:5"}
    async with asyncio.timeout(60):
        asked = await run(sandbox, ["getent", "hosts", "nowhere.example.com"], env=unanswered)
    assert asked[0] == 2


async def test_a_pod_gets_the_same_place_again(isolation):
    assert await pod(isolation) is await pod(isolation)


async def test_clusters_beside_one_another_have_networks_of_their_own(isolation):
    async with opened("namespaces") as other:
        mine, theirs = await pod(isolation), await pod(other)
        assert isolation.bridge.network != other.bridge.network
        assert mine.ip != theirs.ip
    assert exists(f"/sys/class/net/{isolation.bridge.name}")


async def test_the_link_of_a_pod_goes_with_it_though_its_connections_wait_for_answers(isolation):
    server, client = [await pod(isolation, name) for name in ("server", "client")]
    deaf = (
        "import socket, time; s = socket.create_server(('', 8080)); print('listening', flush=True);"
        "accepted = s.accept(); time.sleep(1000)"
    )
    listening = await started((await container_dir(server)).command([PYTHON, "-c", deaf]))
    await said(listening, "listening")
    talk = (
        f"import socket, time; s = socket.create_connection(({server.ip!r}, 8080));"
        "s.setblocking(False)\ntry:\n    while True: s.send(b'x' * 65536)\n"
        "except OSError: print('full', flush=True); time.sleep(1000)"
    )
    talking = await started((await container_dir(client)).command([PYTHON, "-c", talk]))
    await said(talking, "full")
    assert len(links_of(isolation)) == 2
    await isolation.close_pod(client)
    assert len(links_of(isolation)) == 1
    await isolation.close_pod(server)
    for process in (listening, talking):
        await process.communicate()


def links_of(isolation) -> list[Path]:
    short = isolation.bridge.name.removeprefix("manta-")
    return list(Path("/sys/class/net").glob(f"m{short}-*"))
