"""The docs show the state machines of RayJobs and RayServices as they are in the code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from controller.ray.job.facts import FailureReason, State
from controller.ray.service.rollout import TABLE, Phase
from tests.docs.tree import ROOT


def block(name: str, page: str = "rayjob.md") -> str:
    text = (ROOT / "docs" / page).read_text()
    return text.split(f"<!-- {name} -->\n")[1].split("\n<!-- end -->")[0]


def test_the_pages_are_what_the_script_draws():
    drawn = subprocess.run(
        [sys.executable, "scripts/draw-states", "--check"], cwd=ROOT, check=False
    )
    assert drawn.returncode == 0, "run scripts/draw-states"


@pytest.mark.parametrize("state", State)
def test_every_state_is_shown(state: State):
    assert f" {state.title}" in block("picture")


@pytest.mark.parametrize("reason", FailureReason)
def test_every_reason_is_shown(reason: FailureReason):
    assert f"`{reason.title}`" in block("reasons")


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_of_a_rollout_is_shown(phase: Phase):
    assert f'state "{phase.value}"' in block("picture", "upgrades.md")


def test_every_row_of_a_rollout_is_shown():
    assert len(block("rows", "upgrades.md").splitlines()) == sum(map(len, TABLE.values())) + 2
