"""Pods with addresses by a preloaded library."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from devcluster.processes.isolation import build_library
from devcluster.processes.pod_sandbox import Mount
from tests.devcluster.processes.machines import (
    PYTHON,
    container_dir,
    ended,
    exists,
    needs_compiler,
    opened,
    outcome,
    pod,
    run,
    said,
    started,
    status_of,
)
from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

PORT = free_port()
_LISTEN = """
import socket, sys
family, address = getattr(socket, sys.argv[1]), sys.argv[2]
with socket.socket(family) as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a closed connection may linger
    server.bind((address, PORT))
    server.listen()
    print("listening", flush=True)
    while True:
        connection, peer = server.accept()
        connection.sendall(f"{socket.gethostname()} {peer[0].rpartition(':')[2]}".encode())
        connection.close()
""".replace("PORT", str(PORT))
_STUBBORN = "trap '' TERM; sleep 1000 & setsid sleep 1000 & echo ready; sleep 1000; sleep 1000"
SHIMS = [pytest.param(way, marks=needs_compiler) for way in ("shim", "shim beside")]


@pytest.fixture
async def isolation(request):
    async with opened(request.param) as isolation:
        yield isolation


def each(ways):
    return pytest.mark.parametrize("isolation", ways, indirect=True)


async def listening(sandbox, family="AF_INET", address=""):
    main = await container_dir(sandbox)
    process = await started(main.command([PYTHON, "-c", _LISTEN, family, address]))
    await said(process, "listening")
    return main, process


async def asked(sandbox, host: str) -> str:
    ask = f"import socket; print(socket.create_connection(({host!r}, {PORT})).recv(99).decode())"
    status, text = await run(sandbox, [PYTHON, "-c", ask])
    assert status == 0, text
    return text.strip()


@each(SHIMS)
async def test_pods_listen_on_the_same_port_and_reach_one_another(isolation):
    one, two, three = [await pod(isolation, name) for name in ("one", "two", "three")]
    servers = [
        await listening(one),
        await listening(two, "AF_INET6", "::"),
        await listening(three, address="127.0.0.1"),
    ]
    assert await asked(one, two.ip) == f"two {one.ip}"
    assert await asked(two, "127.0.0.1") == f"two {two.ip}"
    assert await asked(three, "localhost") == f"three {three.ip}"
    reader, writer = await asyncio.open_connection(one.ip, PORT)
    assert (await reader.read()).startswith(b"one 127.")
    writer.close()
    for main, process in servers:
        await main.close()
        await process.communicate()


@each(SHIMS)
async def test_a_second_listener_on_loopback_gets_an_alias(isolation):
    script = (
        "import socket\n"
        "a, b = socket.socket(), socket.socket()\n"
        f"a.bind(('', {PORT})); b.bind(('127.0.0.1', {PORT}))\n"
        f"try: socket.socket().bind(('', {PORT}))\n"
        "except OSError: print('refused')\n"
    )
    assert await run(await pod(isolation), [PYTHON, "-c", script]) == (0, "refused\n")


@each(SHIMS)
async def test_a_pod_finds_its_own_address_and_names(isolation):
    script = (
        "import os, socket\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.connect(('8.8.8.8', 53))\n"
        "print(s.getsockname()[0], socket.gethostname(), os.uname().nodename)\n"
        "print(socket.gethostbyname('head'), socket.gethostbyname('head.default.svc'))\n"
        "print(socket.gethostbyname(socket.gethostname()), socket.getfqdn('127.0.0.1'))\n"
    )
    sandbox = await pod(isolation)
    isolation.publish({("default", "head"): ("127.96.1.2",)})
    status, text = await run(sandbox, [PYTHON, "-c", script])
    assert status == 0, text
    assert text.splitlines()[:2] == [f"{sandbox.ip} pod pod", "127.96.1.2 127.96.1.2"]
    assert text.splitlines()[2].split()[0] == sandbox.ip


@each(SHIMS)
async def test_a_service_address_leads_to_where_it_is_held(isolation):
    sandbox = await pod(isolation)
    held = await isolation.hold({"10.96.7.8"})
    assert list(held) == ["10.96.7.8"]
    told = asyncio.Event()

    def accept(reader, writer):
        told.set()
        writer.write(b"forwarded")
        writer.close()

    server = await asyncio.start_server(accept, held["10.96.7.8"], PORT)
    assert await asked(sandbox, "10.96.7.8") == "forwarded"
    server.close()


@each(SHIMS)
async def test_exit_statuses_are_those_of_a_container_runtime(isolation):
    sandbox = await pod(isolation)
    assert (await run(sandbox, ["sh", "-c", "exit 7"]))[0] == 7
    missing = await container_dir(sandbox)
    assert (await outcome(missing.command(["no-such-program"])))[0] == 127
    assert missing.start_error() == "cannot run 'no-such-program': No such file or directory"


@each(SHIMS)
@pytest.mark.parametrize("way", ["kill signal", "ended", "pod closed"])
async def test_nothing_of_a_container_survives_it(isolation, way):
    sandbox = await pod(isolation)
    stubborn = await container_dir(sandbox)
    script = _STUBBORN.rpartition(";")[0].rpartition(";")[0] if way == "ended" else _STUBBORN
    launch = stubborn.command(["sh", "-c", script])
    process = await started(launch)
    if way != "ended":
        await said(process, "ready")
    if way == "kill signal":
        process.send_signal(signal.SIGTERM)
        process.send_signal(launch.kill_signal)
        assert await status_of(process) == 137
    elif way == "pod closed":
        await isolation.close_pod(sandbox)
    await process.communicate()
    await ended(stubborn)


@each(SHIMS)
async def test_another_command_runs_beside_the_main_one_while_that_runs(isolation):
    sandbox = await pod(isolation)
    main = await container_dir(sandbox, env={"COLOUR": "red"})
    launch = main.command(["sh", "-c", "echo ready; exec sleep 1000"])
    process = await started(launch)
    await said(process, "ready")
    assert await outcome(main.exec(["sh", "-c", "echo $COLOUR; exit 5"])) == (5, "red\n")
    process.send_signal(launch.kill_signal)
    await process.communicate()
    assert (await outcome(main.exec(["true"])))[0] == 126


@each(SHIMS)
async def test_volumes_are_found_where_the_machine_has_no_folder(isolation):
    sandbox = await pod(isolation)
    volume = sandbox.root / "volume"
    volume.mkdir()
    (volume / "file").write_text("from the machine\n")
    status, text = await run(
        sandbox,
        ["cat", "/home/nobody-has-this/data/file"],
        mounts=[Mount(volume, "/home/nobody-has-this/data")],
        cwd="/home/nobody-has-this",
    )
    assert (status, text) == (0, "from the machine\n")
    assert not exists("/home/nobody-has-this")


async def test_a_machine_without_a_compiler_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match=r"no C compiler .* install one"):
        await build_library(tmp_path)


@needs_compiler
async def test_the_library_is_compiled_once(tmp_path, monkeypatch):
    made = await build_library(tmp_path)
    monkeypatch.setenv("PATH", sys.prefix)
    assert await build_library(tmp_path) == made
