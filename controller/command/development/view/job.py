"""One RayJob: its status, its attempts, their clusters and pods, and what the job prints."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.apimachinery.custom_object import status_of
from controller.apimachinery.timestamps import time_of
from controller.command.development.view.clusters import ClustersView
from controller.command.development.view.pods import pods_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.command.development.view.screens import Screen
    from controller.ray.api.rayjob import RayJob

_LINES = 12  # of the job's output that a picture shows
_ENDED = frozenset({"Complete", "Failed", "ValidationFailed"})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One entry of `status.attempts`; without a result it is still running."""

    number: int
    cluster: str
    result: str
    reason: str
    message: str
    seconds: float | None

    def text(self) -> str:
        """Return the attempt in one line."""
        title = f"attempt {self.number} on {self.cluster}"
        if not self.result:
            return f"{title}: under way"
        took = f" after {self.seconds:.0f} s" if self.seconds is not None else ""
        reason = f" ({self.reason})" if self.reason else ""
        why = f": {in_short(self.message)}" if self.message else ""
        return f"{title}: {self.result}{reason}{took}{why}"


def in_short(message: str) -> str:
    """Return the first line of a message, without Ray's announcement of the log that follows it."""
    return message.partition("\n")[0].partition(", last available logs")[0]


class JobView(ClustersView):
    """The current state of one job, updated by informer handlers.

    Attributes:
        job: as it is now; None if it does not exist.
        lines: how many lines the job has printed.
    """

    def __init__(self, name: str, screen: Screen) -> None:
        super().__init__(screen)
        self.name = name
        self.job: RayJob | None = None
        self.lines = 0
        self._last_lines: deque[str] = deque(maxlen=_LINES)

    @property
    def status(self) -> dict[str, Any]:
        """The job's status, empty if it has none."""
        return status_of(self.job) if self.job else {}

    @property
    def deployment_status(self) -> str:
        """`status.jobDeploymentStatus`."""
        return str(self.status.get("jobDeploymentStatus", ""))

    @property
    def has_ended(self) -> bool:
        """True if the job has ended."""
        return self.deployment_status in _ENDED

    @property
    def attempts(self) -> list[Attempt]:
        """The latest attempts, oldest first; the last one may still be running."""
        return [_attempt(entry) for entry in self.status.get("attempts", ())]

    def saw_job(self, key: str, job: RayJob | None) -> None:
        """Update the job; None once it is deleted."""
        if key.partition("/")[2] != self.name:
            return
        known, words = self.attempts, self._words
        self.job = job
        for attempt in self.attempts:
            if attempt not in known:
                self._screen.change(attempt.text())
        if self._words != words:
            self._screen.change(f"RayJob {self.name}: {self._words}")
        self._redraw()

    def saw_line(self, line: str) -> None:
        """Add a line that the job has printed."""
        self.lines += 1
        self._last_lines.append(line)
        self._screen.change(f"| {line}")
        self._redraw()

    @property
    def _words(self) -> str:
        return ", ".join(_parts(self.status)) or ("new" if self.job else "gone")

    def _picture(self) -> Any:
        from rich.console import Group  # noqa: PLC0415  an extra
        from rich.panel import Panel  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        title = f"RayJob {self.name}: {self._words}"
        attempts = [Text(attempt.text()) for attempt in self.attempts]
        output = Text("\n".join(self._last_lines) or "nothing yet", no_wrap=True)
        printed = Panel(output, title="what the job prints", title_align="left")
        return Group(pods_table(title, self.pods), *attempts, printed)


def _parts(status: dict[str, Any]) -> Iterator[str]:
    if state := status.get("jobDeploymentStatus"):
        yield state
    if ray := status.get("jobStatus"):
        yield f"Ray says {ray}"
    if reason := status.get("reason"):
        yield reason


def _attempt(entry: dict[str, Any]) -> Attempt:
    began, ended = time_of(entry.get("startTime")), time_of(entry.get("endTime"))
    return Attempt(
        number=entry.get("number", 0),
        cluster=entry.get("rayClusterName", "?"),
        result=entry.get("result", ""),
        reason=entry.get("reason", ""),
        message=entry.get("message", ""),
        seconds=(ended - began).total_seconds() if began and ended else None,
    )
