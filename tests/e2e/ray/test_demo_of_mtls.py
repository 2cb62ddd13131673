"""`make demo KIND=mtls`: a cluster of real Ray whose parts prove who they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.processes import manta
from tests.e2e.ray.machine import needs_ray, summary_of, traces_of

pytestmark = [pytest.mark.slow, pytest.mark.rare, needs_ray, pytest.mark.timeout(1200)]


def test_jobs_run_with_certificates_and_a_client_without_one_is_refused(tmp_path: Path):
    with manta(tmp_path, "demo", "--kind", "mtls") as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(1100) == 0, demo.text()
    summary = summary_of(demo.out.read_text())
    for step in (
        "a job -> succeeded",
        "a member asks -> succeeded",
        "a stranger asks -> failed",
        "issued anew -> another job",
    ):
        assert step in summary
    assert "everything worked" in summary
    traces.go()
