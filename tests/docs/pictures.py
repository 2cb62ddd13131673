"""Pictures of `manta dev` with examples: the web page in a real Chromium, commands on a terminal.

`.venv/bin/python -m tests.docs.pictures` writes docs/page-*.png and docs/status-*.svg.
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from tests.browser import chromium
from tests.docs.tree import ROOT
from tests.e2e.processes import MANTA, Kubectl, manta_dev, until

HEIGHTS = {"overview": 720, "job": 1240}
COLUMNS = 104
COMMANDS = {"table": ("status",), "tree": ("status", "raycluster/too-large")}
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def ill_cluster() -> dict[str, Any]:
    """The example with workers that no node can run."""
    cluster = yaml.safe_load((ROOT / "examples" / "raycluster.yaml").read_text())
    cluster["metadata"]["name"] = "too-large"
    (group,) = cluster["spec"]["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "500"}}
    return cluster


def fill(kubectl: Kubectl) -> None:
    """Create what the pictures show, and wait until it has got somewhere."""
    for example in ("raycluster", "rayjob", "rayservice"):
        kubectl("apply", "-f", str(ROOT / "examples" / f"{example}.yaml"))
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(ill_cluster()))
    for kind, field, wanted in (
        ("rayjob/pi", "{.status.jobDeploymentStatus}", "Complete"),
        ("raycluster/example", "{.status.state}", "ready"),
        ("rayservice/greetings", "{.status.serviceStatus}", "Running"),
    ):
        query = ("get", kind, "-o", f"jsonpath={field}")
        until(lambda query=query, wanted=wanted: kubectl(*query) == wanted)


def on_terminal(arguments: tuple[str, ...], kubeconfig: Path) -> str:
    """What a command writes on a terminal."""
    ours, theirs = pty.openpty()
    variables = {name: each for name, each in os.environ.items() if name != "NO_COLOR"}
    running = subprocess.Popen(
        [*MANTA, *arguments, f"--kubeconfig={kubeconfig}"],
        stdout=theirs,
        stderr=theirs,
        env=variables | {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color"},
    )
    os.close(theirs)
    written = bytearray()
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux: the other side is closed
            break
        written += part
    assert running.wait() == 0, written
    return written.decode().replace("\r\n", "\n")


def terminal(arguments: tuple[str, ...], kubeconfig: Path) -> str:
    """A picture of a command and what it writes, as SVG without fonts of elsewhere."""
    lines = Text.from_ansi(on_terminal(arguments, kubeconfig))
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(f"[bold]$ manta {' '.join(arguments)}[/bold]", highlight=False)
        console.print(lines, no_wrap=True, overflow="ellipsis")
        drawn = console.export_svg(title="manta", theme=DIMMED_MONOKAI, unique_id="manta")
    return _FONTS.sub("", drawn).replace("Fira Code, monospace", "monospace")


async def draw() -> None:
    """Write the pictures, those of the page in the light and in the dark."""
    with tempfile.TemporaryDirectory() as folder, manta_dev(Path(folder)) as (process, kubectl):
        await asyncio.to_thread(fill, kubectl)
        for name, arguments in COMMANDS.items():
            picture = await asyncio.to_thread(terminal, arguments, kubectl.kubeconfig)
            (ROOT / "docs" / f"status-{name}.svg").write_text(picture)
        (url,) = re.findall(r"In a browser: (\S+)", process.out.read_text())
        async with chromium() as browser:
            for name, path in (("overview", ""), ("job", "rayjobs/default/pi")):
                for scheme in ("light", "dark"):
                    size = 1200, HEIGHTS[name]
                    await browser.open(url + path, dark=scheme == "dark", size=size)
                    seen = await browser.picture()
                    (ROOT / "docs" / f"page-{name}-{scheme}.png").write_bytes(seen)


if __name__ == "__main__":
    asyncio.run(draw())
