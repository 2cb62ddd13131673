"""`make demo KIND=rayservice-incremental`: capacity and requests move in steps, and back."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.e2e.processes import manta
from tests.e2e.ray.machine import needs_ray, summary_of, traces_of

pytestmark = [pytest.mark.slow, pytest.mark.rare, needs_ray, pytest.mark.timeout(2400)]


def test_an_upgrade_is_reverted_half_way_and_another_one_completed_without_a_failed_request(
    tmp_path: Path,
):
    chart = tmp_path / "upgrade.svg"
    arguments = ("demo", "--kind", "rayservice-incremental", "--chart", str(chart))
    with manta(tmp_path, *arguments) as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(2000) == 0, demo.text()
    told = demo.out.read_text()
    assert "(50 % capacity, 25 % of the requests)" in told
    summary = summary_of(told)
    assert re.search(r"^requests that failed +0$", summary, re.MULTILINE)
    clusters = set(re.findall(r"^answers of v2 +\d+  (\S+)$", summary, re.MULTILINE))
    assert len(clusters) == 2, "the reverted upgrade had a cluster of its own"
    puts = re.findall(r"^PUT to (\S+): (.+?)(?:, capacity \d+ %)? \(200\)$", summary, re.MULTILINE)
    for cluster, versions in puts:
        expected = "v2" if cluster in clusters else "v1"
        assert versions == f"greeter {expected}, adder {expected}"
    assert "everything worked" in summary
    texts = {each.text for each in ET.parse(chart).iter("{http://www.w3.org/2000/svg}text")}
    assert {"edited: v2", "reverted: v1", "complete", "v1", "v2"} <= texts
    traces.go()
