"""Pictures of the web page: docs/page-*.png, of `manta dev` with examples, in a real Chromium.

Run `.venv/bin/python -m tests.docs.page_pictures`, then look at them.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.browser import chromium
from tests.docs.tree import ROOT
from tests.e2e.processes import Kubectl, manta_dev, until

HEIGHTS = {"overview": 720, "job": 1240}


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


async def draw() -> None:
    """Write the pictures, in the light and in the dark."""
    with tempfile.TemporaryDirectory() as folder, manta_dev(Path(folder)) as (process, kubectl):
        await asyncio.to_thread(fill, kubectl)
        (url,) = re.findall(r"In a browser: (\S+)", process.out.read_text())
        async with chromium() as browser:
            for name, path in (("overview", ""), ("job", "rayjobs/default/pi")):
                for scheme in ("light", "dark"):
                    size = 1200, HEIGHTS[name]
                    await browser.open(url + path, dark=scheme == "dark", size=size)
                    picture = await browser.picture()
                    (ROOT / "docs" / f"page-{name}-{scheme}.png").write_bytes(picture)


if __name__ == "__main__":
    asyncio.run(draw())
