"""A process that is the first of its container, asked to end before it has begun its work."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ALONE = ("unshare", "--map-root-user", "--pid", "--fork", "--kill-child")
READY = "import time; print('ready', flush=True); time.sleep(100)"


def namespaces_work() -> bool:
    """Whether this machine lets a process be the first of its own namespace."""
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not namespaces_work(), reason="SKIP: processes get no namespaces of their own")
def test_the_first_process_of_a_container_can_be_ended_while_it_loads_its_modules():
    code = f"import controller.command; {READY}"
    with subprocess.Popen([*ALONE, sys.executable, "-c", code], stdout=subprocess.PIPE) as outer:
        try:
            assert outer.stdout
            assert outer.stdout.readline() == b"ready\n"
            children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()
            os.kill(int(children), signal.SIGTERM)
            assert outer.wait(60) == 128 + signal.SIGTERM
        finally:
            outer.kill()


def test_other_processes_keep_what_the_system_does_with_the_signal():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
