"""docs/rayjob.md shows the table as it is."""

from __future__ import annotations

from pathlib import Path

from controller.ray.job.state_machine.picture import picture, reasons
from controller.ray.job.state_machine.reasons import Reason
from controller.ray.job.state_machine.states import State

DOC = (Path(__file__).parents[3] / "docs" / "rayjob.md").read_text()


def block(name: str) -> str:
    return DOC.split(f"<!-- {name} -->\n")[1].split("\n<!-- end -->")[0]


def test_the_picture_in_the_manual_is_the_table():
    assert block("picture") == f"```mermaid\n{picture()}\n```"


def test_the_reasons_in_the_manual_are_the_table():
    assert block("reasons") == reasons()


def test_every_state_and_every_reason_is_shown():
    for state in State:
        assert f" {state.title}" in picture()
    assert all(reason.title in reasons() for reason in Reason)
