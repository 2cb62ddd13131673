"""`manta dev` on a terminal: a live screen instead of the log, which goes to a file."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.processes import MANTA, ROOT, Kubectl, needs_kubectl, until

pytestmark = [needs_kubectl, pytest.mark.slow, pytest.mark.timeout(400)]


@contextmanager
def terminal(folder: Path, *options: str) -> Iterator[tuple[list[str], Kubectl]]:
    """`manta dev` on a terminal of 150 columns; what it has written, which grows."""
    kubeconfig = folder / "kubeconfig"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    running = subprocess.Popen(
        [*MANTA, "dev", "--kubeconfig", str(kubeconfig), *options],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=environment | {"TERM": "xterm-256color", "XDG_CACHE_HOME": str(folder)},
    )
    os.close(theirs)
    written: list[str] = []

    def read() -> None:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux: the other side is closed
                return
            written.append(part.decode(errors="replace"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        until(kubeconfig.exists, why=lambda: "".join(written))
        yield written, Kubectl(kubeconfig)
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(90)
        reader.join(90)
        os.close(ours)


def test_objects_and_events_appear_and_the_log_is_in_a_file(tmp_path: Path):
    with terminal(tmp_path) as (written, kubectl):
        kubectl("apply", "-f", str(ROOT / "examples" / "raycluster.yaml"))
        kubectl("wait", "--for=condition=Ready", "raycluster/example", "--timeout=80s")
        until(lambda: "raycluster/example" in "".join(written[-5:]), why=lambda: "".join(written))
        until(lambda: "CreatedHeadPod" in "".join(written), why=lambda: "".join(written))
        assert "reconcile_id" not in "".join(written)
        (log,) = tmp_path.rglob("*.log")
        until(lambda: "reconcile_id" in log.read_text())


def test_the_log_is_shown_where_it_is_asked_for(tmp_path: Path):
    with terminal(tmp_path, "--log") as (written, kubectl):
        kubectl("apply", "-f", str(ROOT / "examples" / "raycluster.yaml"))
        until(lambda: "reconcile_id" in "".join(written), why=lambda: "".join(written))
        assert not list(tmp_path.rglob("*.log"))
