"""What `make` runs, and what the summary of the tests says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import pytest

from tests.chart.helm import HELM
from tests.docs.licences import IMAGE, pinned
from tests.e2e.processes import ROOT

pytestmark = pytest.mark.timeout(400)

OUTSIDE_OF_MAKE = {
    name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
}
SLOW_ONE = "tests/integration/test_many_jobs.py"


def line_of(*arguments: str) -> str:
    """The commands that `make ARGUMENTS` would run, each on one line."""
    return subprocess.run(
        ["make", "-n", *arguments],
        cwd=ROOT,
        env=OUTSIDE_OF_MAKE,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.replace("\\\n", "")


def test_make_passes_the_kind_on():
    assert "manta demo --kind rayjob" in line_of("demo", "KIND=rayjob")
    assert "manta demo --kind raycluster" in line_of("demo")


def test_make_pictures_draws_every_picture_of_the_docs():
    makers = {  # by the beginning of the name
        "dashboard": "tests.chart.dashboard_picture",
        "incremental-upgrade": "--chart docs/incremental-upgrade.svg",
        "page-": "tests.docs.pictures",
        "status-": "tests.docs.pictures",
    }
    commands = line_of("pictures")
    for picture in (*ROOT.glob("docs/**/*.svg"), *ROOT.glob("docs/**/*.png")):
        assert any(
            picture.name.startswith(name) and maker in commands for name, maker in makers.items()
        ), picture
    for script in ("draw-dashboard", "draw-layers", "draw-states"):
        assert script in commands


def test_make_test_leaves_out_the_slow_tests_and_make_test_all_runs_them():
    assert "-m 'not slow'" in line_of("test")
    assert " -m 'slow and not rare'" in line_of("test-all", "REST=1")
    everything = line_of("test-all")
    assert "pytest" in everything
    assert "slow" not in everything


@pytest.mark.parametrize(
    ("layers", "folders"), [("tests", ["tests/e2e/ray", "tests"]), ("tests/kube", ["tests/kube"])]
)
def test_tests_with_real_ray_run_by_themselves_and_before_all_others(
    layers: str, folders: list[str]
):
    runs = [run for run in line_of("test-all", f"LAYERS={layers}").split(";") if "pytest" in run]
    assert [run.split("||")[0].split()[-1] for run in runs] == folders
    assert [" -n " in run for run in runs] == [folder != "tests/e2e/ray" for folder in folders]
    assert "--ignore tests/e2e/ray" in runs[-1]


@pytest.mark.parametrize(
    ("first", "second", "real", "status"),
    [(0, 0, 0, 0), (5, 0, 0, 0), (1, 0, 0, 1), (0, 1, 0, 1), (0, 5, 0, 0), (0, 0, 1, 1)],
)
def test_the_tests_fail_if_any_run_does(first: int, second: int, real: int, status: int):
    ended = f"f() {{ case $* in *--ignore*) return {second};; *) return {first};; esac; }}; "
    command = line_of("test-all", "PYTEST=f", f"REAL=sh -c 'exit {real}'").splitlines()[-1]
    assert subprocess.run(ended + command, shell=True, check=False).returncode == status


def test_make_keeps_compiled_modules_whatever_the_environment_says():
    shown = subprocess.run(
        ["make", "--eval=shown: ; @echo $${PYTHONDONTWRITEBYTECODE:-unset}", "shown"],
        cwd=ROOT,
        env=OUTSIDE_OF_MAKE | {"PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stdout == "unset\n"


@pytest.mark.slow
@pytest.mark.rare
@pytest.mark.timeout(900)
def test_make_mutate_tries_the_mutants_of_a_module_and_prints_the_score():
    tried = subprocess.run(
        ["make", "mutate", "PACKAGES=workqueue", "ARGS=--only heap"],
        cwd=ROOT,
        env=OUTSIDE_OF_MAKE,
        check=False,
        capture_output=True,
        text=True,
    )
    assert tried.returncode == 0, tried.stdout[-2000:] + tried.stderr[-2000:]
    assert "workqueue: 100.0% of the mutants are killed" in tried.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_a_release_publishes_is_built_and_checked_without_a_registry():
    """One test for packages and list of parts: both make the same environments."""
    tools = subprocess.run(
        ["make", ".audit/.tools", ".audit/.image"],
        cwd=ROOT,
        env=OUTSIDE_OF_MAKE,
        check=False,
        capture_output=True,
        text=True,
    )
    if "connection broken" in tools.stderr:
        pytest.skip("SKIPPED, NOT PASSED: packages cannot be installed without a network")
    assert tools.returncode == 0, tools.stderr
    target = "package" if HELM else "sbom"
    made = subprocess.run(
        ["make", target], cwd=ROOT, env=OUTSIDE_OF_MAKE, check=False, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    listed = json.loads((ROOT / "sbom.cdx.json").read_text())
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    assert listed["metadata"]["component"]["name"] == "manta-operator"
    parts = {each["purl"].split("/")[1].split("@")[0]: each for each in listed["components"]}
    assert set(pinned(IMAGE)) <= parts.keys()
    assert [name for name, part in parts.items() if not part.get("licenses")] == []
    if not HELM:
        pytest.skip("SKIPPED, NOT PASSED: no helm on this machine to package the chart")
    assert "PASSED" in made.stdout  # of twine
    wheel = "manta_operator-0.1.0-py3-none-any.whl"
    built = {file.name for file in (ROOT / "dist").iterdir()}
    assert built == {wheel, "manta-operator-0.1.0.tgz", "sbom.cdx.json"}
    inside = zipfile.ZipFile(ROOT / "dist" / wheel).namelist()
    assert "controller/examples/raycluster.yaml" in inside
    assert not [name for name in inside if name.startswith("tests/")]


def test_an_audit_fails_too_if_it_cannot_say_of_a_package():
    assert "pip-audit --strict " in line_of("audit")
    assert "--require-hashes" in line_of("audit")


def test_ci_runs_every_test_once():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line.partition(" || ")[0] for line in lines]  # the rest repeats what failed
    assert any(command.startswith("make") and " lint ray " in command for command in commands)
    assert "make test" in commands
    assert any(command.startswith("make test-all REST=1") for command in commands)
    assert "make test-real" in commands


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
