"""The summary of the Workspace demo."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.command.development.demos.models.waits import MeasuredWait
from controller.command.development.demos.summary import DemoSummary


@dataclass(slots=True)
class WorkspaceDemoSummary(DemoSummary):
    """The waits of the demo, and the answer of the server."""

    waits: list[MeasuredWait] = field(default_factory=list[MeasuredWait])
    model: str = ""
    question: str = ""
    answer: str = ""

    def text(self) -> str:
        """Return the summary as plain lines."""
        lines = [*self.steps.lines(), "waited"]
        lines += [line for wait in self.waits for line in wait.lines()]
        if self.model:
            lines += [f"asked {self.model}: {self.question}", f"answer: {self.answer}"]
        return "\n".join([*lines, *self.verdict()])
