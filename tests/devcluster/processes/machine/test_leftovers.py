"""What is left when a cluster dies, and when several run at once."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from devcluster.processes.cluster_dir import (
    ClusterDir,
    clean_up,
    tagged_processes,
)
from devcluster.processes.isolation import (
    IsolationUnavailable,
    select_isolation,
)
from tests.devcluster.processes.machines import contents, exists, needs_compiler, needs_namespaces

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

_CLUSTER = """
import asyncio, sys
from pathlib import Path
from devcluster.processes.cluster_dir import ClusterDir
from tests.devcluster.processes.machines import WAYS, pod, container_dir, said, started

async def main():
    host = ClusterDir(Path(sys.argv[2]))
    isolation = await WAYS[sys.argv[1]](host)
    sandbox = await pod(isolation)
    main = await container_dir(sandbox)
    command = "sleep 1000 & setsid sleep 1000 & echo ready; sleep 1000; sleep 1000"
    process = await started(main.command(["sh", "-c", command]))
    await said(process, "ready")
    print(host.root, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""
WAYS = [
    pytest.param("namespaces", marks=needs_namespaces),
    pytest.param("shim", marks=needs_compiler),
    pytest.param("shim beside", marks=needs_compiler),
]


@pytest.fixture
def base():
    with tempfile.TemporaryDirectory(prefix="manta-test-", dir="/tmp") as folder:
        yield Path(folder)


async def dying_cluster(way: str, base: Path) -> tuple[asyncio.subprocess.Process, Path]:
    """A cluster of its own process, with a pod in it; and the cluster's folder."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _CLUSTER,
        way,
        str(base),
        cwd=str(Path(__file__).parents[4]),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    async with asyncio.timeout(60):
        root = Path((await process.stdout.readline()).decode().strip())
    return process, root


async def processes_that_run(root: Path) -> set[tuple[int, int]]:
    """The processes of a cluster once all commands of its pod run."""
    async with asyncio.timeout(60):
        while len(found := set(tagged_processes(f"{root}/"))) <= 3:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
    return found


def networks() -> set[str]:
    return {name for name in os.listdir("/sys/class/net") if name.startswith("manta-")}  # noqa: PTH208


def rules_of(root: Path) -> bool:
    """Whether this machine has routing rules of a cluster."""
    number = 10_000 + int(root.name, 16) % 10_000
    return (
        f"{number}:"
        in subprocess.run(
            ["ip", "rule", "show"], capture_output=True, text=True, check=False
        ).stdout
    )


@pytest.mark.parametrize("way", WAYS)
async def test_a_killed_cluster_leaves_no_process_and_the_next_start_removes_the_rest(way, base):
    process, root = await dying_cluster(way, base)
    running = await processes_that_run(root)
    assert clean_up(base) == [], "a living cluster is left alone"
    assert rules_of(root) == (way == "namespaces")
    assert len(running.intersection(tagged_processes(f"{root}/"))) > 2, "one may only start others"
    process.kill()
    await process.communicate()
    async with asyncio.timeout(60):
        while list(tagged_processes(f"{root}/")):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    link = f"manta-{root.name}"
    assert (link in networks()) == (way == "namespaces")
    assert exists(root)
    (found,) = clean_up(base)
    assert found.pid == process.pid
    assert contents(base) == []
    assert link not in networks()
    assert not rules_of(root)
    assert not exists(f"/dev/shm/{link}")
    assert clean_up(base) == []


async def test_processes_are_known_by_their_mark_even_without_a_supervisor(base):
    host = ClusterDir(base)
    container_dir = f"{host.root}/p0/0/"
    stray = await asyncio.create_subprocess_exec(
        "sleep", "1000", env={"MANTA_CONTAINER_DIR": container_dir}
    )
    other = await asyncio.create_subprocess_exec(
        "sleep", "1000", env={"MANTA_CONTAINER_DIR": f"{host.root}0/p0/0/"}
    )
    await asyncio.to_thread(host.close)
    assert await stray.wait() == -signal.SIGKILL
    assert other.returncode is None, "a mark of another cluster"
    other.kill()
    await other.wait()


def test_a_folder_that_is_no_clusters_is_left_alone(base):
    (base / "notes").mkdir()
    (base / "file").write_text("mine")
    assert clean_up(base) == []
    assert len(contents(base)) == 2


def test_clusters_that_run_at_once_have_numbers_of_their_own(base):
    hosts = [ClusterDir(base), ClusterDir(base)]
    assert hosts[0].number != hosts[1].number
    assert hosts[0].root != hosts[1].root
    for host in hosts:
        host.close()
    assert contents(base) == []


def test_a_cluster_that_died_while_it_began_is_removed_too(base):
    (base / "abcd").mkdir()
    (base / "abcd" / "owner").write_text('{"pid": 1')
    (found,) = clean_up(base)
    assert (found.pid, contents(base)) == (0, [])


@needs_compiler
async def test_the_best_that_is_possible_is_chosen_and_the_reason_is_told(base, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda program, path=None: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "cache"))
    (base / "clusters").mkdir()
    with pytest.raises(IsolationUnavailable, match="needs root; shim: there is no C"):
        await select_isolation("auto", base=base / "clusters")
    with pytest.raises(IsolationUnavailable, match="namespaces: it needs root"):
        await select_isolation("namespaces", base=base / "clusters")
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    chosen = await select_isolation("auto", base=base / "clusters")
    told = "\n".join(chosen.sentences())
    assert "isolation 'namespaces' is not possible: it needs root" in told
    assert "isolation 'shim': each pod has an address" in told
    await chosen.isolation.aclose()
    assert contents(base / "clusters") == []


@needs_namespaces
async def test_root_gets_namespaces(base):
    chosen = await select_isolation("auto", base=base)
    assert (chosen.isolation.mode, chosen.refused) == ("namespaces", {})
    await chosen.isolation.aclose()
    assert contents(base) == []


@needs_namespaces
async def test_a_mode_that_fails_its_self_test_leaves_nothing(base, monkeypatch):
    async def failing(isolation, python):
        raise OSError("pods cannot reach one another")

    monkeypatch.setattr("devcluster.processes.isolation.self_test", failing)
    with pytest.raises(IsolationUnavailable, match="namespaces: pods cannot reach one another"):
        await select_isolation("namespaces", base=base)
    assert contents(base) == []
