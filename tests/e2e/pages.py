"""The commands of README and docs, and how a person runs those of one page."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.docs.tree import PAGES, commands_of
from tests.e2e.processes import KUBECTL, MANTA, ROOT, Kubectl, until

ON_CLUSTER = ("kubectl", "manta rollout ", "manta crds ", "manta status", "manta why ")
OWN_POD = " POD "
WITH_RAY = ("docs/rayjob-on-a-laptop.md", "docs/rayservice.md")


def commands() -> Iterator[tuple[str, str]]:
    """The path of a page, and a command on it, for every command of every page."""
    for page in PAGES:
        for command in commands_of(page):
            yield str(page.relative_to(ROOT)), command.replace(".venv/bin/", "")


def run_page(page: str, kubectl: Kubectl, folder: Path) -> str:
    """Run the commands of a page that use the cluster, in their order; returns what they print.

    Those that name the operator's own pod are left to tests of the operator: no node runs it here.
    """
    told = [
        run(kubectl, command, folder)
        for name, command in commands()
        if name == page and command.startswith(ON_CLUSTER) and OWN_POD not in command
    ]
    return "".join(told)


def run(kubectl: Kubectl, command: str, folder: Path) -> str:
    environment = os.environ | {"KUBECONFIG": str(kubectl.kubeconfig)}
    program, *arguments = shlex.split(command)
    if "|" in arguments:
        pipe = command.replace("manta", shlex.join(MANTA), 1).replace("kubectl", str(KUBECTL))
        return subprocess.run(
            pipe, shell=True, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        ).stdout
    if program == "manta":
        return subprocess.run(
            [*MANTA, *arguments], env=environment, check=True, capture_output=True, text=True
        ).stdout
    if "-w" not in arguments:
        return kubectl(*arguments)
    out = folder / "watch.out"
    watch = kubectl.background(*arguments, out=out)
    try:
        until(lambda: out.read_text().count("\n") >= 2)
    finally:
        watch.terminate()
        watch.wait()
    return out.read_text()
