"""`benchmarks.drains` with Manta alone: nothing is lost when nodes are drained under load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.drains import PROGRAMS, ROOT
from tests.e2e.ray.machine import needs_ray
from tests.lab.session import needs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.rare,
    pytest.mark.timeout(1500),
    needs_ray,
    needs(*PROGRAMS),
]


def outcome_of(workload: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.drains", "-o", "json", "--workload", workload]
    alone = {name: value for name, value in os.environ.items() if name != "KUBERAY_OPERATOR"}
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)[workload]["Manta"]
    assert len(found["drains"]) == 3, done.stderr
    return found


@pytest.mark.parametrize("workload", ["raycluster", "rayjob"])
def test_workers_are_drained_under_a_driver_whose_head_stays_until_it_has_ended(workload: str):
    found = outcome_of(workload)
    for drain in found["drains"]:
        assert drain["drained"] is not drain["head"], "only the head's node is refused"
    [after] = found["drains_after"]
    assert after["drained"]
    work = found["work"]
    assert work["drivers"] == 1
    assert work["sums_right"]


def test_a_service_of_two_replicas_loses_no_request_while_all_its_nodes_are_drained():
    found = outcome_of("rayservice")
    assert all(drain["drained"] for drain in found["drains"])
    requests = found["requests"]
    assert requests["answered"] > 200
    assert requests["failed"] == 0, requests["reasons"]
