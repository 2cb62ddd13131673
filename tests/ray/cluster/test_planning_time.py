"""A plan for 5,000 pods stays far from blocking the event loop."""

from __future__ import annotations

import pytest

from benchmarks.bench_planner import run

BOUND_MS = 100 * 3
"""The aim is 100 ms on an idle machine; machines that run tests are rarely idle."""


@pytest.mark.real_time
def test_a_plan_for_five_thousand_pods_takes_well_under_a_second():
    assert {name: ms for name, ms in run().items() if ms > BOUND_MS} == {}
