"""What `make` runs, and what the summary of the tests says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)

_OUTSIDE_OF_MAKE = {
    name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
}
SLOW_ONE = "tests/integration/test_many_jobs.py"


def line_of(*arguments: str) -> str:
    """The commands that `make ARGUMENTS` would run, each on one line."""
    return subprocess.run(
        ["make", "-n", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.replace("\\\n", "")


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
    assert "-n $(( $(nproc) + 1 )) " in line_of("test-all")


@pytest.mark.slow
def test_one_process_runs_the_tests_with_real_ray_and_the_others_give_way(tmp_path: Path):
    folder = tmp_path / "tests" / "e2e" / "ray"
    folder.mkdir(parents=True)
    for path, relation in (
        (folder / "test_jobs.py", "=="),
        (folder / "test_serve.py", "=="),
        (tmp_path / "tests/test_a.py", ">"),
    ):
        usual = f"import os\ndef test_{{}}(): assert os.nice(0) {relation} {os.nice(0)}\n"
        path.write_text("".join(map(usual.format, range(4))))
    (tmp_path / "pytest.ini").touch()
    *_, command = line_of("test-all", f"VENV={sys.prefix}", "ARGS=-n 3 -v").splitlines()
    done = subprocess.run(
        command,
        shell=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    played = re.findall(r"^\[(gw\d)\] .* PASSED tests/(.*/)?test_", done.stdout, re.MULTILINE)
    with_ray = {process for process, place in played if place == "e2e/ray/"}
    others = {process for process, place in played if not place}
    assert len(with_ray) == 1, done.stdout
    assert others == {"gw0", "gw1", "gw2"} - with_ray


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
