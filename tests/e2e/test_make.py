"""What `make` runs, and what the summary of the tests says."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.e2e.processes import ROOT
from tests.e2e.ray.machine import needs_ray

pytestmark = pytest.mark.timeout(180)

_OUTSIDE_OF_MAKE = {
    name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
}
SLOW_ONE = "tests/integration/test_many_jobs.py"


def line_of(*arguments: str) -> str:
    """The commands that `make ARGUMENTS` would run."""
    return subprocess.run(
        ["make", "-n", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def test_make_passes_the_kind_on():
    assert "manta demo --kind rayjob" in line_of("demo", "KIND=rayjob")
    assert "manta demo --kind raycluster" in line_of("demo")


def test_make_test_leaves_out_the_slow_tests_and_make_test_all_runs_them():
    assert "-m 'not slow'" in line_of("test")
    assert " -m slow" in line_of("test-all", "REST=1")
    everything = line_of("test-all")
    assert "pytest" in everything
    assert "slow" not in everything


def test_beside_one_process_for_each_core_there_is_one_for_tests_with_real_ray():
    assert "-n $(( $(nproc) + 1 )) --dist loadgroup" in line_of("test-all")


@needs_ray
def test_tests_with_real_ray_share_one_process(request: pytest.FixtureRequest):
    group = request.node.get_closest_marker("xdist_group")
    assert group.args == ("ray",)


def test_make_keeps_compiled_modules_whatever_the_environment_says():
    shown = subprocess.run(
        ["make", "--eval=shown: ; @echo $${PYTHONDONTWRITEBYTECODE:-unset}", "shown"],
        cwd=ROOT,
        env=_OUTSIDE_OF_MAKE | {"PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stdout == "unset\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_make_mutate_tries_the_mutants_of_a_module_and_prints_the_score():
    tried = subprocess.run(
        ["make", "mutate", "PACKAGES=workqueue", "ARGS=--only heap"],
        cwd=ROOT,
        env=_OUTSIDE_OF_MAKE,
        check=False,
        capture_output=True,
        text=True,
    )
    assert tried.returncode == 0, tried.stdout[-2000:] + tried.stderr[-2000:]
    assert "workqueue: 100.0% of the mutants are killed" in tried.stdout


def test_ci_runs_every_test_once():
    commands = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "make test" in commands
    assert any(command.startswith("make test-all REST=1") for command in commands)


@pytest.mark.slow
def test_the_summary_counts_the_slow_tests_that_were_left_out():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", "-m", "not slow", SLOW_ONE],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert "left for `make test-all`: 1\n" in done.stdout, done.stdout + done.stderr
