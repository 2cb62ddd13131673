"""What a demo shows: objects in a few words, redrawn in place on a terminal, else as lines."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from controller.apimachinery.conditions import is_true
from controller.apimachinery.custom_object import CustomObject, conditions_of
from controller.command.development.embedded_cluster import follow
from controller.kube.objects import Pod
from controller.kube.resources import Resource
from controller.ray.api import RayCluster
from devcluster.apiserver import ApiServer

Words: TypeAlias = Callable[[Any], Mapping[str, str]]
"""The state of an object and of its parts by their names, its own first; none if it does not
belong to the demo."""


class Screen:
    """One line a change, with the seconds since the start: for pipes and logs."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self.elapsed = elapsed

    def headline(self, text: str) -> None:
        """Announce the next step."""
        self._print(f"== {text}")

    def change(self, text: str) -> None:
        """Report one change."""
        self._print(f"   {text}")

    def draw(self, picture: Callable[[], Any]) -> None:
        """Draw what `picture` makes for `rich`, if this screen shows one."""

    def close(self) -> None:
        """Leave the terminal as it was."""

    def _print(self, text: str) -> None:
        sys.stdout.write(f"{self.elapsed():7.2f}s {text}\n")
        sys.stdout.flush()


class LiveScreen(Screen):
    """A picture that is redrawn in place, for terminals. Needs the `cli` extra."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        from rich.live import Live  # noqa: PLC0415  an extra

        super().__init__(elapsed)
        self._steps: list[str] = []
        self._picture: Callable[[], Any] = str
        self._best: tuple[int, Any] = (0, "")
        self._live = Live(refresh_per_second=12, transient=False)
        self._live.start()

    def headline(self, text: str) -> None:
        """Add a step to the list above the picture."""
        self._keep_best()
        self._steps.append(f"{self.elapsed():6.2f}s  {text}")
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
    return Screen(elapsed)


_LINES: Final = 12
"""Lines of what else has happened that a picture shows."""
_GOOD: Final = ("True", "Ready", "ready", "Succeeded", "Complete")


class View:
    """The objects of a demo, kept up to date with a server in this process.

    Attributes:
        objects: those that exist now, by resource and key.
        seen: those that there ever were, as they were last.
        on_change: called after each change.
        counts: the last lines of the picture.
    """

    def __init__(self, screen: Screen, words: Mapping[Resource[Any], Words]) -> None:
        self.objects: dict[Resource[Any], dict[str, Any]] = {each: {} for each in words}
        self.seen: dict[Resource[Any], dict[str, Any]] = {each: {} for each in words}
        self.on_change: list[Callable[[], None]] = []
        self.counts: Callable[[], Iterable[str]] = tuple
        self._screen = screen
        self._words = words
        self._states: dict[tuple[Resource[Any], str], dict[str, str]] = {}
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._changed = asyncio.Event()

    def updates(self, server: ApiServer) -> list[Coroutine[Any, Any, None]]:
        """Return what keeps the view up to date while it runs."""
        return [
            follow(server, each, partial(self.saw, each), namespace="default" * each.namespaced)
            for each in self.objects
        ]

    def saw(self, resource: Resource[Any], key: str, obj: Any | None) -> None:
        """Show an object; None once it is deleted."""
        before = self._states.pop((resource, key), {})
        states = {} if obj is None else dict(self._words[resource](obj))
        self.objects[resource].pop(key, None)
        if states:
            self.objects[resource][key] = self.seen[resource][key] = obj
            self._states[resource, key] = states
        for subject, state in states.items():
            if before.get(subject) != state:
                self._screen.change(f"{subject}: {state}")
        if before and not states:
            self._screen.change(f"{next(iter(before))}: gone")
        for each in self.on_change:
            each()
        self.refresh()

    def show(self, line: str) -> None:
        """Show something else that has happened; waiting tasks look again."""
        self._lines.append(line)
        self._screen.change(line)
        self.refresh()

    def refresh(self) -> None:
        """Redraw the picture; waiting tasks look again."""
        self._screen.draw(self._picture)
        self._changed.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until `reached` is true. The caller sets the time limit."""
        while not reached():
            self._changed.clear()
            await self._changed.wait()

    def one(self, resource: Resource[Any]) -> Any | None:
        """Return the only object of a resource; None if it does not exist."""
        return next(iter(self.objects[resource].values()), None)

    def is_true(self, resource: Resource[Any], condition: str) -> bool:
        """Return whether a condition of the only object of a resource is true."""
        obj = self.one(resource)
        return obj is not None and is_true(conditions_of(obj), condition)

    def _picture(self) -> Any:
        from rich.console import Group  # noqa: PLC0415  an extra
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table("object", "state", min_width=72)
        for states in self._states.values():
            for subject, state in states.items():
                table.add_row(subject, Text(state, style=_colour(state)))
        return Group(table, *(Text(line, no_wrap=True) for line in (*self._lines, *self.counts())))


def _colour(state: str) -> str:
    if state.startswith(_GOOD):
        return "green"
    return {"Failed": "red", "Terminating": "magenta"}.get(state.partition(" ")[0], "yellow")


def pod_state(pod: Pod) -> str:
    """Return one word for a pod, as `kubectl get pods` would put it."""
    if pod.metadata.terminating:
        return "Terminating"
    if any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions):
        return "Ready"
    for container in pod.status.container_statuses:
        if container.state.waiting and container.state.waiting.reason:
            return container.state.waiting.reason
    return pod.status.phase or "Pending"


def pod_words(pod: Pod) -> dict[str, str]:
    """Return the state of a pod."""
    return {f"pod {pod.metadata.name}": pod_state(pod)}


def cluster_words(cluster: RayCluster) -> dict[str, str]:
    """Return the state of a RayCluster."""
    state = "Terminating" if cluster.metadata.terminating else cluster.status.get("state")
    return {f"cluster {cluster.metadata.name}": str(state or "not ready")}


def whole_cluster_words(cluster: RayCluster) -> dict[str, str]:
    """Return the state of a RayCluster and of its conditions."""
    return cluster_words(cluster) | condition_words(cluster)


def condition_words(obj: CustomObject) -> dict[str, str]:
    """Return the conditions of an object."""
    return {
        f"condition {each['type']}": " ".join(
            filter(None, (each.get("status"), each.get("reason", "") + ":", each.get("message")))
        ).rstrip(":")
        for each in conditions_of(obj)
    }
