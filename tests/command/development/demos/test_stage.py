"""How a demo says why it failed."""

from __future__ import annotations

from controller.command.development.demos.stage import StepFailed, failure_text


def test_a_failed_demo_names_each_reason_and_no_group_of_tasks():
    inner = ExceptionGroup("unhandled errors in a TaskGroup", [StepFailed("no pod is ready")])
    outer = ExceptionGroup("unhandled errors in a TaskGroup", [inner, StepFailed("no answer")])
    assert failure_text(outer) == "no pod is ready; no answer"
