"""The web page in a real browser: how it looks, how fast it is, and without a mouse."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.command.status.page_server import OwnerOnly, PageServer
from controller.command.status.reading import Seen
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS
from tests.browser import Browser, chromium, needs_chromium
from tests.e2e.processes import ROOT, manta, manta_dev, needs_kubectl, until
from tests.fakes.monitoring import serving
from tests.integration.harness import embedded_world
from tests.ports import free_port

pytestmark = [needs_chromium, pytest.mark.real_time, pytest.mark.slow, pytest.mark.timeout(400)]

EXAMPLE = yaml.safe_load((ROOT / "examples" / "raycluster.yaml").read_text())
FIRST_PAINT = """
new Promise(done => new PerformanceObserver(list => {
  const found = list.getEntriesByName("first-contentful-paint")[0];
  if (found) done(found.startTime);
}).observe({type: "paint", buffered: true}))
"""
CONTRAST = """
(() => {
  const light = text => {
    const parts = text.match(/[\\d.]+/g).map(Number).slice(0, 3)
      .map(c => c / 255).map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return .2126 * parts[0] + .7152 * parts[1] + .0722 * parts[2];
  };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const node of document.querySelectorAll("main *, header *")) {
    if (node.closest("svg") || ![...node.childNodes].some(c => c.nodeType == 3 && c.data.trim()))
      continue;
    const pair = [light(getComputedStyle(node).color), light(behind(node))].sort((a, b) => b - a);
    const contrast = (pair[0] + .05) / (pair[1] + .05);
    if (contrast < 4.5) found.push(node.outerHTML.slice(0, 80) + " " + contrast.toFixed(2));
  }
  return found;
})()
"""


def cluster(number: int) -> dict[str, Any]:
    ready = number % 10 > 0
    condition = {
        "type": "Ready",
        "status": str(ready),
        "reason": "AllPodsReady" if ready else "ImagePullBackOff",
        "message": "" if ready else "an image cannot be pulled <script>alert(1)</script>",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    metadata = {
        "name": f"cluster-{number:04}",
        "namespace": f"team-{number % 7}",
        "uid": str(number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "resourceVersion": str(number),
    }
    return EXAMPLE | {"metadata": metadata, "status": {"conditions": [condition]}}


def pod(number: int) -> dict[str, Any]:
    of = number // 3
    metadata = {
        "name": f"pod-{number}",
        "namespace": f"team-{of % 7}",
        "uid": f"p{number}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "ray.io/cluster": f"cluster-{of:04}",
            "ray.io/node-type": "head" if number % 3 == 0 else "worker",
            "ray.io/group": "headgroup" if number % 3 == 0 else "workers",
        },
    }
    scheduled = {
        "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z",
    }  # fmt: skip
    return {
        "metadata": metadata,
        "spec": {"nodeName": "a", "containers": [{"name": "ray"}]},
        "status": {"phase": "Running", "conditions": [scheduled]},
    }


@asynccontextmanager
async def crowded() -> AsyncIterator[str]:
    """The page of a thousand clusters; its address."""
    clusters = msgspec.convert([*map(cluster, range(1000))], list[RAYCLUSTERS.view])
    pods = msgspec.convert([*map(pod, range(3000))], list[Pod])
    seen = Seen({RAYCLUSTERS: clusters, PODS: pods})
    async with embedded_world() as world:
        server = PageServer(
            0,
            read=lambda _: seen,
            client=world.client("page"),
            access=OwnerOnly("token"),
            wall=lambda: datetime(2026, 1, 1, 0, 5, tzinfo=UTC),
            option="--page-port",
        )
        async with serving(server):
            yield f"http://dev:token@127.0.0.1:{server.port}"


async def test_a_thousand_clusters_are_painted_within_a_second_in_one_hundred_rows():
    async with crowded() as url, chromium() as browser:
        await browser.open(f"{url}/?page=2")
        painted = []
        for _ in range(5):
            await browser.open(f"{url}/")
            painted.append(await browser.evaluate(FIRST_PAINT))
            assert (
                await browser.evaluate("document.querySelectorAll('tbody tr th a').length") == 100
            )
        assert min(painted) < 1000, painted
        await browser.open(f"{url}/?q=cluster-099&state=not+ready")
        links = "[...document.querySelectorAll('tbody th a')].map(each => each.textContent)"
        assert await browser.evaluate(links) == ["raycluster/cluster-0990"]
        assert browser.complaints == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("path", ["/", "/rayclusters/team-3/cluster-0010", "/nothing"])
async def test_every_text_can_be_read_in_the_light_and_in_the_dark(path: str, dark: bool):
    async with crowded() as url, chromium() as browser:
        await browser.open(f"{url}{path}", dark=dark)
        page = await browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", page))) < 3 * 128) == dark
        assert await browser.evaluate(CONTRAST) == []
        assert await browser.evaluate("document.scripts.length") == 0
        expected = [each for each in browser.complaints if path == "/nothing" and " 404 " in each]
        assert browser.complaints == expected


async def test_a_narrow_window_scrolls_tables_and_nothing_else():
    async with crowded() as url, chromium() as browser:
        for path in ("/", "/rayclusters/team-3/cluster-0010"):
            await browser.open(f"{url}{path}", size=(400, 800))
            assert await browser.evaluate("document.documentElement.scrollWidth") <= 400


async def test_the_keyboard_is_enough():
    async with crowded() as url, chromium() as browser:
        await browser.open(f"{url}/?q=cluster-0010")
        focused = "document.activeElement.textContent.trim()"
        outlined = "getComputedStyle(document.activeElement).outlineStyle"
        passed = []
        while not passed or passed[-1] != "raycluster/cluster-0010":
            await browser.press("Tab")
            passed.append(await browser.evaluate(focused))
            assert await browser.evaluate(outlined) == "solid", passed
            assert len(passed) < 40
        assert passed[0] == "Skip to the content"
        assert {"RayClusters", "Find", "Keep updating"} <= set(passed)
        async with browser.navigation():
            await browser.press("Enter")
        assert "cluster-0010" in await browser.evaluate("document.title")
        assert "unnamed" not in await unnamed(browser)


async def unnamed(browser: Browser) -> str:
    """Landmarks, fields and headings that a screen reader could not name."""
    tree = await browser.send("Accessibility.getFullAXTree")
    roles = {"navigation", "search", "region", "textbox", "button", "link", "heading", "table"}
    nodes = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree["nodes"]
        if not node["ignored"]
    ]
    assert [role for role, _ in nodes].count("main") == 1
    levels = await browser.evaluate("[...document.querySelectorAll('h1')].length")
    assert levels == 1
    return " ".join(
        "unnamed " + role for role, name in nodes if role in roles - {"table"} and not name
    )


@needs_kubectl
async def test_manta_dev_prints_an_address_that_a_browser_opens(tmp_path: Path):
    with manta_dev(tmp_path) as (process, kubectl):
        (url,) = re.findall(r"In a browser: (\S+)", process.out.read_text())
        kubectl("apply", "-f", str(ROOT / "examples" / "raycluster.yaml"))
        async with chromium() as browser:
            text = "document.querySelector('main').innerText"
            async with asyncio.timeout(60):
                while "all 1 ready" not in await _shown(browser, url, text):
                    pass
            await browser.open(f"{url}rayclusters/default/example?live=1")
            assert "group workers: 2 of 2 ready" in await browser.evaluate(text)
            assert browser.complaints == []
        process.popen.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(until, lambda: process.popen.poll() is not None)
        assert process.popen.returncode == 0, process.text()


@needs_kubectl
async def test_the_operator_shows_the_owner_of_a_token_what_he_may_see(tmp_path: Path):
    port = free_port()
    with manta_dev(tmp_path, "--no-operator") as (_, kubectl):
        kubectl("create", "serviceaccount", "reader")
        kubectl("create", "clusterrole", "ray", "--verb=get,list", "--resource=rayclusters.ray.io")
        to = ["--clusterrole=ray", "--serviceaccount=default:reader"]
        kubectl("create", "rolebinding", "reader", *to)
        token = kubectl("create", "token", "reader").strip()
        kubectl("apply", "-f", str(ROOT / "examples" / "raycluster.yaml"))
        quiet = ["--health-address=", "--metrics-address=", "--log-format=json"]
        run = ["run", f"--kubeconfig={kubectl.kubeconfig}", f"--page-port={port}", *quiet]
        with manta(tmp_path, *run, name="run") as operator:
            await asyncio.to_thread(
                until, lambda: "manager.started" in operator.text(), why=operator.text
            )
            async with chromium() as browser:
                url = f"http://me:{token}@127.0.0.1:{port}"
                await browser.open(f"{url}/")
                text = "document.querySelector('main').innerText"
                assert "name a namespace" in await browser.evaluate(text)
                async with asyncio.timeout(60):
                    while "1 ready" not in await _shown(browser, f"{url}/?namespace=default", text):
                        pass
                await browser.open(f"{url}/rayclusters/default/example")
                assert "group workers: 2 pods" in await browser.evaluate(text)
                assert browser.complaints == []
        assert token not in operator.text()


async def _shown(browser: Browser, url: str, expression: str) -> str:
    await browser.open(url)
    return str(await browser.evaluate(expression))
