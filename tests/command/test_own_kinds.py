"""An operator of somebody else's kinds, as far as its command line goes."""

from __future__ import annotations

import pytest

from controller.command.own_kinds import run
from examples.kinds.widget.widget import WidgetKind


def test_a_wrong_setting_or_file_is_named_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
):
    assert run([WidgetKind()], ["--workers=0"]) == 2
    assert run([WidgetKind()], ["--kubeconfig=/nowhere/at/all"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "workers must be at least 1" in first
    assert "/nowhere/at/all" in second


def test_its_help_names_the_kinds_and_no_option_of_ray(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        run([WidgetKind()], ["--help"])
    text = capsys.readouterr().out
    assert "Run widget-controller." in text
    assert "--leader-election-namespace" in text
    assert "proxy" not in text
