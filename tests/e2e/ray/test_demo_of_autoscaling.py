"""`make demo KIND=autoscaling`: Ray's autoscaler adds workers and removes idle ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, manta
from tests.e2e.ray.machine import needs_ray, traces_of

pytestmark = [pytest.mark.slow, needs_ray, pytest.mark.timeout(2400)]
EXAMPLE = (ROOT / "examples" / "autoscaling.yaml").read_text()


@pytest.mark.parametrize("version", [pytest.param("v1", marks=pytest.mark.rare), "v2"])
def test_real_ray_grows_for_a_job_and_shrinks_when_it_is_idle(version: str, tmp_path: Path):
    assert "version: v2" in EXAMPLE
    manifest = tmp_path / "autoscaling.yaml"
    manifest.write_text(EXAMPLE.replace("version: v2", f"version: {version}"))
    arguments = ("demo", "--kind", "autoscaling", "-f", str(manifest))
    with manta(tmp_path, *arguments) as demo:
        traces = traces_of(demo.popen.pid)
        assert demo.wait(2000) == 0, demo.text()
    told = demo.out.read_text()
    for step in ("created -> ready", "job asks -> 2 workers", "job ended, idle -> 0 workers"):
        assert step in told
    assert "left on this machine: nothing" in told
    assert "everything worked" in told
    traces.go()
