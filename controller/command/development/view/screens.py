"""The screens of demos and of `manta dev`: lines that say what has changed."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from controller.kube.objects import KubeObject
from informers import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.kube.objects import Pod
    from informers import Tombstone


# An informer handler that updates a view.

T = TypeVar("T", bound=KubeObject)


class ObjectHandler(Generic[T]):
    """Passes each object's new state from an informer to a view.

    Args:
        saw: called with the key and the new state of each changed object, None if it is deleted.
    """

    def __init__(self, saw: Callable[[str, T | None], None]) -> None:
        self._saw = saw

    def on_add(self, obj: T, *, initial: bool) -> None:
        """Handle a new object."""
        del initial
        self._saw(obj.metadata.key, obj)

    def on_update(self, old: T, new: T) -> None:
        """Handle a changed object."""
        del old
        self._saw(new.metadata.key, new)

    def on_delete(self, obj: T | Tombstone[T]) -> None:
        """Handle a deleted object."""
        self._saw(key_of(obj), None)


# Output of a view: a picture redrawn in place, or plain lines.


class Screen(Protocol):
    """Output of a view."""

    def headline(self, text: str) -> None:
        """Announce the next step."""
        ...

    def change(self, text: str) -> None:
        """Report one change."""
        ...

    def draw(self, picture: Callable[[], Any]) -> None:
        """Draw the whole picture, if this screen shows one.

        Args:
            picture: makes something that `rich` can render.
        """
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


class PlainScreen:
    """One line a change, with the seconds since the start: for pipes and logs."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed

    def headline(self, text: str) -> None:
        """Print a step."""
        self._print(f"== {text}")

    def change(self, text: str) -> None:
        """Print a change."""
        self._print(f"   {text}")

    def draw(self, picture: Callable[[], Any]) -> None:
        """Do nothing: plain output has no picture."""

    def close(self) -> None:
        """Do nothing."""

    def _print(self, text: str) -> None:
        sys.stdout.write(f"{self._elapsed():7.2f}s {text}\n")
        sys.stdout.flush()


class LiveScreen:
    """A picture that is redrawn in place, for terminals. Needs the `cli` extra."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        from rich.live import Live  # noqa: PLC0415  an extra

        self._elapsed = elapsed
        self._steps: list[str] = []
        self._picture: Callable[[], Any] = str
        self._best: tuple[int, Any] = (0, "")
        self._live = Live(refresh_per_second=12, transient=False)
        self._live.start()

    def headline(self, text: str) -> None:
        """Add a step to the list above the picture."""
        self._keep_best()
        self._steps.append(f"{self._elapsed():6.2f}s  {text}")
        self.draw(self._picture)

    def change(self, text: str) -> None:
        """Do nothing: the picture already shows changes."""

    def draw(self, picture: Callable[[], Any]) -> None:
        """Redraw the steps and the picture."""
        self._picture = picture
        self._show(picture())

    def close(self) -> None:
        """Leave the fullest picture on the terminal: at the end of a demo all is deleted."""
        self._keep_best()
        self._show(self._best[1])
        self._live.stop()

    def _keep_best(self) -> None:
        """Keep the picture with the most lines of those at the end of a step."""
        picture = self._picture()
        lines = len(self._live.console.render_lines(picture))
        if lines >= self._best[0]:
            self._best = lines, picture

    def _show(self, picture: Any) -> None:
        from rich.console import Group  # noqa: PLC0415  an extra
        from rich.text import Text  # noqa: PLC0415

        steps = (Text(step, style="bold") for step in self._steps)
        self._live.update(Group(*steps, picture))


def screen_for(elapsed: Callable[[], float]) -> Screen:
    """Return a live screen on a terminal, else (or with `NO_COLOR`, without `rich`) lines."""
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        try:
            return LiveScreen(elapsed)
        except ImportError:
            pass
    return PlainScreen(elapsed)


# Waiting for a state that a view shows.


class Changes:
    """Wakes tasks that wait for a state of a view."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Wake the tasks: the state has changed."""
        self._changed.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until `reached` is true. The caller sets the time limit."""
        while not reached():
            self._changed.clear()
            await self._changed.wait()


# Pods as tables and words for people.

_COLOURS = {"Ready": "green", "Succeeded": "green", "Failed": "red", "Terminating": "magenta"}


def pod_state(pod: Pod | None) -> str:
    """Return one word for a pod, as `kubectl get pods` would put it."""
    if pod is None:
        return "gone"
    if pod.metadata.terminating:
        return "Terminating"
    if any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions):
        return "Ready"
    for container in pod.status.container_statuses:
        if container.state.waiting and container.state.waiting.reason:
            return container.state.waiting.reason
    return pod.status.phase or "Pending"


def role_of(pod: Pod) -> str:
    """Return `head`, `worker`, or `submitter` for the pods of a Job; empty for all others."""
    labels = pod.metadata.labels or {}
    return labels.get("ray.io/node-type", "submitter" if "job-name" in labels else "")


def pods_table(title: str, pods: Mapping[str, Pod]) -> Any:
    """Return a table of pods for `rich`."""
    from rich.table import Table  # noqa: PLC0415  an extra
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title, min_width=72)
    for column in ("pod", "role", "state"):
        table.add_column(column)
    for key in sorted(pods):
        state = pod_state(pods[key])
        shown = Text(state, style=_COLOURS.get(state, "yellow"))
        table.add_row(key.partition("/")[2], role_of(pods[key]), shown)
    return table
