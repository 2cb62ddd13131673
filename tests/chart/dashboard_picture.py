"""Draws the chart's dashboard: docs/dashboard.svg, with the answers of a real Prometheus.

`python -m tests.chart.dashboard_picture` runs the operator on the embedded cluster. For two minutes
RayClusters and RayJobs come and go, a RayService is upgraded and a rolling update replaces workers,
while Prometheus scrapes the operator. Then it draws the answers to the panels' queries on Grafana's
grid.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.manifests import load
from controller.kube.client import Client
from controller.kube.resources import CONFIG_MAPS, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, custom_resource_definitions
from devcluster.nodes import NodeSettings
from tests.chart.helm import CHART, ROOT
from tests.chart.prometheus import JOB, NAMESPACE, PROMETHEUS
from tests.chart.running_prometheus import Prometheus, leave_a_lease, prometheus
from tests.e2e.processes import manta, until, write_kubeconfig
from tests.ports import free_port

PICTURE: Final = ROOT / "docs" / "dashboard.svg"
PANELS: Final[list[dict[str, Any]]] = json.loads((CHART / "dashboard.json").read_text())["panels"]
SECONDS: Final = 120
STEP: Final = 2
CELL: Final = 50, 20
"""Pixels of a cell of the grid."""

COLOURS: Final = ("#4575b4", "#d73027", "#1a9850", "#984ea3", "#ff7f00", "#666666")
LEGEND: Final = 4
"""Lines of the legend."""


class Series(Struct, frozen=True):
    legend: str
    points: list[tuple[float, float]]


def queries(panel: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The legends of a panel, with the queries for the release in Prometheus."""
    for target in panel.get("targets", []):
        query = target["expr"].replace("$__rate_interval", "15s")
        yield target["legendFormat"], query.replace("$job", JOB).replace("$namespace", NAMESPACE)


def series(legend: str, answer: list[dict[str, Any]], begin: float) -> Iterator[Series]:
    """The lines of an answer; what is no number is left out."""
    for each in answer:
        points = [(at - begin, float(value)) for at, value in each["values"] if value != "NaN"]
        labels = each["metric"]
        name = re.sub(r"{{(\w+)}}", lambda found, known=labels: known.get(found[1], ""), legend)
        if points:
            yield Series(name.strip(), points)


def drawing(shown: dict[int, list[Series]]) -> str:
    across, down = CELL
    height = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in PANELS) * down
    size = f'viewBox="0 0 {24 * across} {height}" font-family="sans-serif" font-size="11"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>']
    for panel in PANELS:
        lines += framed(panel, shown.get(panel["id"], []))
    return "\n".join([*lines, "</svg>\n"])


def framed(panel: dict[str, Any], lines: list[Series]) -> Iterator[str]:
    """One panel, or the heading of a row, at its place."""
    across, down = CELL
    at = panel["gridPos"]
    width, height = at["w"] * across, at["h"] * down
    yield f'<g transform="translate({at["x"] * across},{at["y"] * down})">'
    if panel["type"] == "row":
        yield f'<text x="4" y="15" font-weight="bold">{escape(panel["title"])}</text></g>'
        return
    frame = f'width="{width - 6}" height="{height - 6}"'
    yield f'<rect x="3" y="3" {frame} fill="white" stroke="#cccccc"/>'
    yield f'<text x="10" y="18" font-weight="bold">{escape(panel["title"])}</text>'
    unit = panel["fieldConfig"]["defaults"]["unit"]
    if not lines:
        yield f'<text x="10" y="{height // 2}" fill="#999999">no data</text>'
    elif panel["type"] == "stat":
        value = written(lines[0].points[-1][1], unit)
        yield f'<text x="10" y="{height // 2 + 12}" font-size="30">{value}</text>'
    else:
        yield from plotted(lines, unit, width, height)
    yield "</g>"


def plotted(lines: list[Series], unit: str, width: int, height: int) -> Iterator[str]:
    """Lines from zero to their highest value, and a legend of those that rise highest."""
    lines = sorted(lines, key=peak, reverse=True)
    highest = peak(lines[0]) or 1.0
    named = [each for each in lines if peak(each)][:LEGEND] or lines[:1]
    left, right, top, bottom = 60, width - 14, 30, height - 14 * len(named) - 16
    yield f'<text x="10" y="{top + 8}" fill="#666666">{written(highest, unit)}</text>'
    yield f'<text x="10" y="{bottom}" fill="#666666">0</text>'
    yield f'<path d="M{left},{top}V{bottom}H{right}" fill="none" stroke="#cccccc"/>'
    for number, each in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{left + (right - left) * at / SECONDS:.1f},"
            f"{bottom - (bottom - top) * value / highest:.1f}"
            for at, value in each.points
        )
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        if each in named:
            legend = each.legend or "without a reason yet"
            text = f"{legend}, at most {written(peak(each), unit)}"
            y = bottom + 16 + 14 * number
            yield f'<text x="{left}" y="{y}" fill="{colour}">{escape(text)}</text>'


def peak(line: Series) -> float:
    return max(value for _, value in line.points)


def written(value: float, unit: str) -> str:
    """A value for people."""
    if unit == "bytes":
        return f"{value / 2**20:.0f} MiB"
    suffix = {"s": " s", "ops": "/s", "reqps": "/s"}.get(unit, "")
    return f"{value:.3g}{suffix}"


async def play(client: Client, manifest: dict[str, Any], began: float) -> None:
    """Create RayClusters, more and more of them, and delete some, until the time is over."""
    by_kind: dict[str, Resource[Any]] = {
        each.kind: each for each in (CONFIG_MAPS, RAYCLUSTERS, RAYSERVICES)
    }
    upgraded: list[tuple[Resource[Any], dict[str, Any]]] = []
    for example in ("rolling", "rayservice"):
        for each in load(ROOT / "examples" / f"{example}.yaml"):
            await client.create(by_kind[each["kind"]], "default", each)
            upgraded += [(by_kind[each["kind"]], each)] if "Ray" in each["kind"] else []
    number = 0
    while time.time() < began + SECONDS:
        body = manifest | {"metadata": {"name": f"example-{number}"}}
        if number % 4 == 3:  # with workers that cannot start for a while
            body = with_annotation(body, "sim.manta.dev/outcome", "image-pull-error")
        await client.create(RAYCLUSTERS, "default", body)
        if number % 3 == 2:
            await client.delete(RAYCLUSTERS, "default", f"example-{number - 1}")
        if number % 2:
            await client.create(RAYJOBS, "default", job(manifest, f"job-{number}"))
        if number == 8:
            for resource, edited in upgraded:
                await edit(client, resource, edited)
        number += 1
        await asyncio.sleep(5)


def with_annotation(cluster: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    """The cluster with an annotation of its workers."""
    changed = copy.deepcopy(cluster)
    (group,) = changed["spec"]["workerGroupSpecs"]
    group["template"]["metadata"] = {"annotations": {name: value}}
    return changed


def job(cluster: dict[str, Any], name: str) -> dict[str, Any]:
    """A job on such a cluster, which it deletes at its end; each third one fails."""
    result = "FAILED" if int(name.rpartition("-")[2]) % 3 == 0 else "SUCCEEDED"
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "annotations": {"sim.manta.dev/job": result}},
        "spec": {
            "entrypoint": "python job.py",
            "submissionMode": "HTTPMode",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": cluster["spec"],
        },
    }


async def edit(client: Client, resource: Resource[Any], manifest: dict[str, Any]) -> None:
    """Give its workers another variable, as an upgrade does."""
    name = manifest["metadata"]["name"]
    body = await client.get_raw(resource, "default", name)
    spec = body["spec"].get("rayClusterConfig", body["spec"])
    for group in spec["workerGroupSpecs"]:
        (container,) = group["template"]["spec"]["containers"]
        container["env"] = [*container.get("env", []), {"name": "VERSION", "value": "2"}]
    await client.replace(resource, "default", name, body)


def answers(found: Prometheus, began: float) -> dict[int, list[Series]]:
    """What Prometheus answers to all panels, by their ids."""
    return {
        panel["id"]: [
            line
            for legend, query in queries(panel)
            for line in series(
                legend, found.history(query, begin=began, end=began + SECONDS, step=STEP), began
            )
        ]
        for panel in PANELS
    }


async def main(folder: Path) -> None:
    port, kubeconfig = free_port(), folder / "kubeconfig"
    crds, nodes = custom_resource_definitions(), NodeSettings(start_delay=1, ready_delay=1)
    [manifest] = load(ROOT / "examples" / "raycluster.yaml")
    async with embedded_cluster(port=0, crds=crds, nodes=nodes) as cluster:
        write_kubeconfig(kubeconfig, cluster)
        await leave_a_lease(cluster.client("user"))
        arguments = (
            f"--kubeconfig={kubeconfig}",
            f"--metrics-address=127.0.0.1:{port}",
            "--health-address=",
            "--enable-leader-election=true",
            "--leader-election-namespace=default",
        )
        with (
            manta(folder, "run", *arguments) as operator,
            prometheus(folder, {NAMESPACE: port}) as found,
        ):
            await asyncio.to_thread(until, lambda: found.has("informer_synced"), why=operator.text)
            began = time.time()
            await play(cluster.client("user"), manifest, began)
            PICTURE.write_text(drawing(await asyncio.to_thread(answers, found, began)))


if __name__ == "__main__":
    if not PROMETHEUS:
        sys.exit("PROMETHEUS names no program, and there is none on the PATH")
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
