"""Errors in groups."""

from __future__ import annotations

from controller.runtime.errors import Terminal, leaves


def test_the_errors_inside_nested_groups_are_listed_in_their_order():
    first, second, third = KeyError("a"), ValueError("b"), OSError("c")
    nested = ExceptionGroup("outer", [first, ExceptionGroup("inner", [second]), third])
    assert leaves(nested) == [first, second, third]
    assert leaves(first) == [first]


def test_a_terminal_error_has_a_reason_for_its_event():
    assert (str(Terminal("odd")), Terminal("odd").reason) == ("odd", "TerminalError")
    assert Terminal("odd", reason="OddShape").reason == "OddShape"
