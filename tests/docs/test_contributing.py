"""The commands for contributors work: each is run here, or it is what runs these tests."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from tests.docs.tree import ROOT, commands_of

pytestmark = [pytest.mark.timeout(180), pytest.mark.real_time]

RUN_ELSEWHERE = {
    "make lint": "CI runs it",
    "make test": "it is what runs this",
    "make test-real ARGS='-k test_lifecycle'": "CI runs `make test-real`, test_lab.py its choice",
}
OUTER = {"MAKEFLAGS", "MFLAGS", "ARGS", "LAYERS", "REST"}
"""Variables of the `make` that runs the tests."""

PAGES = (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "debugging.md")
COMMANDS = sorted({command for page in PAGES for command in commands_of(page)})


def test_the_commands_that_are_run_elsewhere_are_on_the_page():
    assert RUN_ELSEWHERE.keys() <= set(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in RUN_ELSEWHERE])
def test_a_command_for_contributors_works(command: str):
    program, *arguments = shlex.split(command)
    if program == "make":  # what is installed is not looked at again
        arguments = ["-o", ".venv/.dev", *arguments, "VENV=.venv"]
    else:
        assert program == ".venv/bin/python", command
        program = sys.executable
    environment = {name: value for name, value in os.environ.items() if name not in OUTER}
    done = subprocess.run(
        [program, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lists_of_targets_are_of_the_makefile():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for target in (
        *("lint", "test", "test-all", "ray", "simulate", "mutate", "test-real", "lab"),
        *("lock", "sbom", "audit", "site"),
    ):
        assert f"make {target}" in text
        subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)
