"""`make demo KIND=drain`: nodes are emptied under a job on real Ray."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.processes import manta
from tests.e2e.ray.machine import needs_ray, summary_of, traces_of

pytestmark = [pytest.mark.slow, pytest.mark.rare, needs_ray, pytest.mark.timeout(3000)]


def test_a_job_counts_right_while_its_nodes_are_drained(tmp_path: Path):
    with manta(tmp_path, "demo", "--kind", "drain") as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(2900) == 0, demo.text()
    summary = summary_of(demo.out.read_text())
    assert len(re.findall(r"^node \S+ drained -> whole +[\d.]+ s$", summary, re.MULTILINE)) >= 2
    counts = dict(re.findall(r"^(\w[\w ]+?) +(\d+)$", summary, re.MULTILINE))
    assert int(counts["workers drained"]) >= 6
    assert counts["ran after a drain deadline"] == "0"
    assert "everything worked" in summary
    traces.go()
