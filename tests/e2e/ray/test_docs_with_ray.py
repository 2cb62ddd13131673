"""The commands of the pages for laptops work with real Ray, in their order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.pages import WITH_RAY, run_page
from tests.e2e.processes import manta_dev, needs_kubectl
from tests.e2e.ray.machine import needs_ray

pytestmark = [
    pytest.mark.slow,
    pytest.mark.rare,
    needs_ray,
    needs_kubectl,
    pytest.mark.timeout(2400),
]


def test_the_commands_of_the_pages_for_laptops_work_with_real_ray(tmp_path: Path):
    with manta_dev(tmp_path, "--ray") as (process, kubectl):
        told = "".join(
            run_page(page, replace(kubectl, patience=700), tmp_path) for page in WITH_RAY
        )
        assert "round 1: pi is about 3.1" in told
        assert '"result":"Succeeded"' in told
        assert '"greeting":"Hello Ann","version":"v1"' in told
        assert '"adder":{"message":"","serveDeploymentStatuses":' in told
        process.popen.terminate()
        assert process.wait(60) == 0
