"""Programs of a test: each ends with the test, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 120.0
STOP_SECONDS = 15.0
TAIL = 3000
"""Characters of a log that a failure shows."""

_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)
_libc = ctypes.CDLL(None)
_unverified = ssl._create_unverified_context()


class StartError(Exception):
    """A program ended, or was not ready in time; the message ends with its log."""


@contextmanager
def running(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the context exits; its output is appended to a file.

    The kernel kills it when the thread that called this ends, by kill -9 too: call it in one that
    lasts as long as the program shall.
    """
    parent = os.getpid()

    def end_with_parent() -> None:
        _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended before the kernel was told
            os._exit(1)

    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            preexec_fn=end_with_parent,  # noqa: PLW1509 - takes no lock
        )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def wait_until_ready(
    child: subprocess.Popen[bytes], log: Path, ready: str, *, token: str = ""
) -> None:
    """Wait until the program is ready.

    Args:
        ready: a URL that is answered with 200 then, or else a text that it logs.
        token: sent to the URL.
    """
    deadline = time.monotonic() + START_SECONDS
    while not (_answers(ready, token) if "://" in ready else ready in log.read_text()):
        if child.poll() is not None:
            raise StartError(f"{log.stem} ended with {child.returncode}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise StartError(f"{log.stem} not ready in {START_SECONDS:.0f} s:\n{tail(log)}")
        time.sleep(0.1)


def tail(log: Path, since: int = 0) -> str:
    """The last characters of a log, of what it has from byte `since` on."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(since, size - TAIL))
        return file.read().decode(errors="replace")


def _answers(url: str, token: str) -> bool:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, context=_unverified, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False
