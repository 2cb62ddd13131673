"""Stock kubectl in pods that are processes: exec, cp, attach and port-forward."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.processes import manta_dev, needs_kubectl, until
from tests.ports import free_port

pytestmark = [pytest.mark.slow, needs_kubectl, pytest.mark.timeout(400)]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: main
    image: python
    command: [sh, -c, "python3 -m http.server 8000 & while true; do date; sleep 0.2; done"]
"""

READER = """
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: python
    stdin: true
    stdinOnce: true
    command: [sh, -c, "while read line; do echo got $line; done"]
"""


def get(url: str) -> str:
    """What is there; empty while it cannot be reached."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except OSError:
        return ""


WEBSOCKETS: dict[str, str] = {}
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
"""What kubectl before 1.31 speaks."""


@pytest.mark.parametrize("protocol", [WEBSOCKETS, SPDY], ids=["websockets", "spdy"])
def test_commands_run_in_pods_and_files_are_copied(tmp_path: Path, protocol: dict[str, str]):
    with manta_dev(tmp_path, "--no-operator", f"--image=python={sys.prefix}") as (dev, stock):
        kubectl = stock.with_environment(**protocol)
        kubectl("apply", "-f", "-", stdin=POD)
        until(lambda: "Running" in kubectl("get", "pod", "a"), why=dev.text)
        assert kubectl("exec", "a", "--", "echo", "hello") == "hello\n"
        assert kubectl("exec", "-i", "a", "--", "cat", stdin="text") == "text"
        large = "text" * 500_000
        assert kubectl("exec", "-i", "a", "--", "cat", stdin=large) == large
        failed = kubectl("exec", "a", "--", "sh", "-c", "exit 3", check=False)
        assert "command terminated with exit code 3" in failed
        assert "container z is not valid" in kubectl(
            "exec", "a", "-c", "z", "--", "ls", check=False
        )

        here = tmp_path / "here"
        here.write_text("content")
        kubectl("cp", str(here), "a:/tmp/there")
        assert kubectl("exec", "a", "--", "cat", "/tmp/there") == "content"

        local = free_port()
        forward = kubectl.background(
            "port-forward", "pod/a", f"{local}:8000", out=tmp_path / "forwarded"
        )
        try:
            until(lambda: "Directory listing" in get(f"http://127.0.0.1:{local}/"), why=dev.text)
        finally:
            forward.terminate()
            forward.wait()

        out = tmp_path / "attached"
        attached = kubectl.background("attach", "a", out=out)
        until(lambda: out.read_text().count("\n") > 1, why=dev.text)
        attached.terminate()
        attached.wait()

        kubectl("apply", "-f", "-", stdin=READER)
        until(lambda: "Running" in kubectl("get", "pod", "reader"), why=dev.text)
        kubectl("attach", "-i", "reader", stdin="words\n", check=False)
        until(lambda: "got words" in kubectl("logs", "reader"), why=dev.text)
