"""The commands of README and docs, and how a person runs those of one page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

from tests.e2e.processes import KUBECTL, MANTA, ROOT, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.processes import Kubectl

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
ON_CLUSTER = ("kubectl", "manta rollout ", "manta crds ")
PROGRAMS = (
    "scripts/", "make", "manta", ".venv/bin/manta", "kubectl", "export", "pip", "python",
    "docker", "helm", "ray job",
)  # fmt: skip
OWN_POD = " POD "
WITH_RAY = ("rayjob-on-a-laptop.md", "rayservice.md")


def commands() -> Iterator[tuple[str, str]]:
    """Every line of a code block that begins with one of our programs, without its comment."""
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            for line in block.splitlines():
                command = line.partition("  #")[0].strip()
                if command.startswith(PROGRAMS):
                    yield page.name, command.replace(".venv/bin/", "")


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
    """Run one command as it stands; one that watches is stopped at its first line."""
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
