"""`make demo KIND=rolling`: workers of real Ray are replaced while a job runs on them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.processes import manta
from tests.e2e.ray.machine import needs_ray, summary_of, traces_of

STEPS = (
    "created -> ready",
    "job submitted -> it counts",
    "edited -> all are v2",
    "edited -> 2 small are v3",
    "rolled back -> all are v2",
    "job asked to end -> ended",
    "deleted -> nothing left",
)

pytestmark = [pytest.mark.slow, pytest.mark.rare, needs_ray, pytest.mark.timeout(3000)]


def test_a_job_counts_right_while_its_workers_are_replaced_and_half_of_an_upgrade_is_taken_back(
    tmp_path: Path,
):
    with manta(tmp_path, "demo", "--kind", "rolling") as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(2900) == 0, demo.text()
    told = demo.out.read_text()
    assert "operator killed: exit status -9" in told
    assert "small: 1 v1 draining" in told
    summary = summary_of(told)
    counts = dict(re.findall(r"^(\w[\w ]+?) +(\d+)$", summary, re.MULTILINE))
    steps = re.findall(r"^(.+?) +[\d.]+ s$", summary, re.MULTILINE)
    assert tuple(steps) == STEPS
    assert int(counts["workers drained"]) >= 6
    assert int(counts["tasks that ended"]) > 100
    assert int(counts["calls of actors that ended"]) > 0
    assert counts["ran after a drain deadline"] == "0"
    assert "the job says: " in told
    for group in ("small", "large"):
        assert re.search(
            rf"^workers of {group} at most +4, that took work at least +[1-3]$",
            summary,
            re.MULTILINE,
        )
        assert f"{group}: 3 v1 ready" in told
    assert "left on this machine: nothing" in summary
    assert "everything worked" in summary
    traces.go()
