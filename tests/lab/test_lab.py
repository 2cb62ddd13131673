"""The lab itself: what is found where, and that nothing of it outlives a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import __main__ as test_real
from tests.lab import build
from tests.lab.control_plane import SERVERS, ControlPlane
from tests.lab.programs import ASSETS, MODULES, Module, path_of, why_missing
from tests.lab.running import StartError, running, wait_until_ready
from tests.ports import free_ports

pytestmark = [pytest.mark.real_time, pytest.mark.embedded_only]

LIVES = """
import sys, time
from pathlib import Path
from tests.lab.running import running
with running(["sleep", "600"], Path(sys.argv[1], "sleep.log")) as child:
    print(child.pid, flush=True)
    time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_program_ends_with_a_test_that_is_killed(tmp_path: Path):
    command = [sys.executable, "-c", LIVES, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as test:
        assert test.stdout is not None
        pid = int(test.stdout.readline())
        assert is_alive(pid)
        test.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(pid)


def test_a_program_ends_with_its_context(tmp_path: Path):
    with running(["sleep", "600"], tmp_path / "log") as child:
        assert child.poll() is None
    assert child.returncode == -signal.SIGTERM


def test_a_program_that_does_not_start_shows_what_it_has_logged(tmp_path: Path):
    log = tmp_path / "failing.log"
    with (
        running(["sh", "-c", "echo no such flag; exit 3"], log) as child,
        pytest.raises(StartError, match=r"failing ended with 3:\nno such flag"),
    ):
        wait_until_ready(child, log, "https://127.0.0.1:9/readyz")


def test_a_program_that_is_not_built_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ASSETS, str(tmp_path))
    plane = ControlPlane(tmp_path, "", "")
    with pytest.raises(StartError, match=f"{ASSETS} names a folder without kube-scheduler"):
        plane.scheduler().__enter__()


def test_a_folder_in_the_environment_takes_the_place_of_what_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(ASSETS, str(tmp_path))
    assert path_of("etcd") == tmp_path / "etcd"
    assert path_of("kueue").parent.parent.name == "lab", "which has none of other projects"
    assert why_missing("etcd", "kube-apiserver") == (
        f"{ASSETS} names a folder without etcd, kube-apiserver"
    )


def test_without_go_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv(ASSETS, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build.main([]) == 1
    assert "there is no `go`" in capsys.readouterr().err
    assert "there is no Go to build them" in why_missing("etcd")


def test_a_module_that_the_lab_does_not_have_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        build.main(["kubernets"])
    assert "no such module: kubernets; there are kubernetes, certmanager" in capsys.readouterr().err


def test_only_the_named_modules_are_built(capsys: pytest.CaptureFixture[str]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Module, "missing", lambda _module: list[str]())
        assert build.main(["kueue"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["kueue"]


def test_without_go_test_real_says_that_nothing_was_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv(ASSETS, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert test_real.main([]) == 0
    said = capsys.readouterr().out
    assert "there is no Go to build them" in said
    assert "NOTHING WAS TESTED" in said


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ([], ["-m", "vital"]),
        (["-x", "-n", "2"], ["-m", "vital", "-x", "-n", "2"]),
        (["-k", "lifecycle"], ["-k", "lifecycle"]),
        (["-m", ""], ["-m", ""]),
        (
            ["tests/integration/test_crashes.py::test_x"],
            ["tests/integration/test_crashes.py::test_x"],
        ),
    ],
)
def test_test_real_runs_what_its_arguments_choose_or_else_what_is_vital(
    arguments: list[str], chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in SERVERS:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv(ASSETS, str(tmp_path))
    ran: list[list[str]] = []
    monkeypatch.setattr(test_real.tempfile, "mkdtemp", lambda **_: str(tmp_path))
    monkeypatch.setattr(
        test_real.os, "execve", lambda _path, command, _environment: ran.append(command)
    )
    test_real.main(arguments)
    [command] = ran
    assert command[command.index("worksteal") + 1 :] == chosen


def test_what_is_built_is_kept_apart_for_other_contents_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Module, "source", tmp_path)
    (tmp_path / "go.sum").write_text("one")
    first, again = (Module("some", {}).folder for _ in range(2))
    (tmp_path / "go.sum").write_text("other")
    assert first == again != Module("some", {}).folder


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_modules_are_pinned_and_name_no_registry(module: Module):
    assert (module.source / "go.sum").is_file()
    for name in ("go.mod", "go.sum"):
        assert "://" not in (module.source / name).read_text()


def test_free_ports_differ():
    assert len(set(free_ports(20))) == 20
