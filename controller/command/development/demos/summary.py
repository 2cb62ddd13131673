"""The summary of a demo whose pods are processes of this machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.command.development.demos.steps import Steps


@dataclass(slots=True, kw_only=True)
class DemoSummary:
    """The results of a demo.

    Attributes:
        steps: its steps, and how long they took.
        wrong: sentences about what was observed and must not be.
        left_behind: what is left on this machine.
        failed: why the demo failed, empty if it did not.
    """

    steps: Steps = field(default_factory=Steps)
    wrong: list[str] = field(default_factory=list[str])
    left_behind: list[str] = field(default_factory=list[str])
    failed: str = ""

    @property
    def worked(self) -> bool:
        """True if the demo succeeded."""
        return not (self.failed or self.wrong or self.left_behind)

    def text(self) -> str:
        """Return the summary as plain lines."""
        return "\n".join([*self.steps.lines(), *self.verdict()])

    def verdict(self) -> list[str]:
        """Return the last lines: what is left, and whether the demo succeeded."""
        left = f"left on this machine: {', '.join(self.left_behind) or 'nothing'}"
        problems = [*self.wrong, *([self.failed] if self.failed else [])]
        return [left, *([f"FAILED: {problem}" for problem in problems] or ["everything worked"])]
