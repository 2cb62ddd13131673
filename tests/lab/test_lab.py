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
from tests.lab.programs import ASSETS, MODULES, Module, why_missing

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


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_modules_are_pinned_and_name_no_registry(module: Module):
    assert (module.source / "go.sum").is_file()
    for name in ("go.mod", "go.sum"):
        assert "://" not in (module.source / name).read_text()
