"""Errors in groups."""

from __future__ import annotations

from controller.runtime.kind import Terminal


def test_a_terminal_error_has_a_reason_for_its_event():
    assert (str(Terminal("odd")), Terminal("odd").reason) == ("odd", "TerminalError")
    assert Terminal("odd", reason="OddShape").reason == "OddShape"
