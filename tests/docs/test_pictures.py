"""docs/rayjob.md shows the state machine and its reasons as they are in the code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from controller.ray.job.state_machine.reasons import FailureReason
from controller.ray.job.state_machine.states import State
from tests.docs.tree import ROOT

PAGE = (ROOT / "docs" / "rayjob.md").read_text()


def block(name: str) -> str:
    return PAGE.split(f"<!-- {name} -->\n")[1].split("\n<!-- end -->")[0]


def test_the_page_is_what_the_script_draws():
    drawn = subprocess.run(
        [sys.executable, "scripts/draw-rayjob", "--check"], cwd=ROOT, check=False
    )
    assert drawn.returncode == 0, "run scripts/draw-rayjob"


@pytest.mark.parametrize("state", State)
def test_every_state_is_shown(state: State):
    assert f" {state.title}" in block("picture")


@pytest.mark.parametrize("reason", FailureReason)
def test_every_reason_is_shown(reason: FailureReason):
    assert f"`{reason.title}`" in block("reasons")
