"""The picture of a demo: the fullest one of its steps stays on the terminal."""

import pytest

from controller.command.development.view.screens import LiveScreen


def test_a_demo_ends_on_its_fullest_picture_and_not_on_the_empty_one(
    capsys: pytest.CaptureFixture[str],
):
    screen = LiveScreen(lambda: 1.0)
    screen.headline("create")
    screen.draw(lambda: "pod one\npod two")
    screen.headline("grow")
    screen.draw(lambda: "pod one\npod two\npod three")
    screen.headline("delete")
    screen.draw(lambda: "gone")
    screen.close()
    shown = capsys.readouterr().out
    assert "pod three" in shown
    assert "gone" not in shown
    assert shown.index("create") < shown.index("delete") < shown.index("pod one")
