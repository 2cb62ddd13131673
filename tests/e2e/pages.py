"""The commands of README and docs, and how a person runs those of one page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

from tests.e2e.processes import MANTA, ROOT, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.processes import Kubectl

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROLLOUT = "manta rollout "
PROGRAMS = (
    "scripts/", "make", "manta", ".venv/bin/manta", "kubectl", "export", "pip", "python",
    "docker", "helm", "ray job",
)  # fmt: skip
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
    """Run the commands of a page that use the cluster, in their order; returns what they print."""
    told = [
        run(kubectl, command, folder)
        for name, command in commands()
        if name == page and command.startswith(("kubectl", ROLLOUT))
    ]
    return "".join(told)


def run(kubectl: Kubectl, command: str, folder: Path) -> str:
    """Run one command as it stands; one that watches is stopped at its first line."""
    program, *arguments = shlex.split(command)
    if program == "manta":
        environment = os.environ | {"KUBECONFIG": str(kubectl.kubeconfig)}
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
