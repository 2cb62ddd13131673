"""What a person watches: one RayCluster, its pods and its conditions, live.

On a terminal the picture is redrawn in place (with `rich`); everywhere else each change is one
plain line. Both read the same two informers.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.kube.objects import Pod
    from controller.ray.api import RayCluster
    from informers import Tombstone


class Screen(Protocol):
    """Where the view shows itself."""

    def headline(self, text: str) -> None:
        """Say what happens next."""
        ...

    def change(self, text: str) -> None:
        """Say one thing that changed."""
        ...

    def draw(self, view: ClusterView) -> None:
        """Show the whole picture, if this screen has one."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


class ClusterView:
    """The present picture of one cluster, fed by informer handlers; wakes who waits for it."""

    def __init__(self, name: str, screen: Screen) -> None:
        self.name = name
        self.cluster: RayCluster | None = None
        self.pods: dict[str, Pod] = {}
        self._screen = screen
        self._changed = asyncio.Event()

    def saw_cluster(self, cluster: RayCluster | None) -> None:
        """Take over a new state of the cluster, None once it is gone."""
        before, self.cluster = self.cluster, cluster
        for line in _cluster_changes(before, cluster):
            self._screen.change(line)
        self._redraw()

    def saw_pod(self, key: str, pod: Pod | None) -> None:
        """Take over a new state of a pod, None once it is gone."""
        before = self.pods.pop(key, None)
        if pod is not None:
            self.pods[key] = pod
        old, new = pod_state(before), pod_state(pod)
        if old != new:
            self._screen.change(f"pod {key.partition('/')[2]}: {new}")
        self._redraw()

    async def until(self, reached: Callable[[ClusterView], bool]) -> None:
        """Wait until the picture satisfies `reached`. The caller sets the time limit."""
        while not reached(self):
            self._changed.clear()
            await self._changed.wait()

    def state(self) -> str:
        """`status.state` of the cluster, empty if there is none yet."""
        return str(self.cluster.status.get("state", "")) if self.cluster else ""

    def workers(self, *, ready: bool = False) -> list[Pod]:
        """The worker pods that are not terminating, or only the ready ones."""
        live = [
            pod
            for pod in self.pods.values()
            if (pod.metadata.labels or {}).get("ray.io/node-type") == "worker"
            and not pod.metadata.terminating
        ]
        return [pod for pod in live if pod_state(pod) == "Ready"] if ready else live

    def _redraw(self) -> None:
        self._screen.draw(self)
        self._changed.set()


class ClusterHandler:
    """Feeds a view from the informer of clusters."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def on_add(self, obj: RayCluster, *, initial: bool) -> None:
        """A cluster appeared."""
        del initial
        self._view.saw_cluster(obj)

    def on_update(self, old: RayCluster, new: RayCluster) -> None:
        """A cluster changed."""
        del old
        self._view.saw_cluster(new)

    def on_delete(self, obj: RayCluster | Tombstone[RayCluster]) -> None:
        """The cluster is gone."""
        del obj
        self._view.saw_cluster(None)


class PodHandler:
    """Feeds a view from the informer of pods."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def on_add(self, obj: Pod, *, initial: bool) -> None:
        """A pod appeared."""
        del initial
        self._view.saw_pod(obj.metadata.key, obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        """A pod changed."""
        del old
        self._view.saw_pod(new.metadata.key, new)

    def on_delete(self, obj: Pod | Tombstone[Pod]) -> None:
        """A pod is gone."""
        from informers import Tombstone  # noqa: PLC0415  types only, elsewhere

        key = obj.key if isinstance(obj, Tombstone) else obj.metadata.key
        self._view.saw_pod(key, None)


def pod_state(pod: Pod | None) -> str:
    """One word for a pod, as `kubectl get pods` would put it."""
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


def conditions_of(cluster: RayCluster | None) -> dict[str, dict[str, Any]]:
    """`status.conditions` by type."""
    listed: list[dict[str, Any]] = cluster.status.get("conditions", []) if cluster else []
    return {str(condition.get("type")): condition for condition in listed}


def _cluster_changes(before: RayCluster | None, after: RayCluster | None) -> list[str]:
    if after is None:
        return ["cluster: gone"]
    lines: list[str] = []
    if before is None:
        lines.append(f"cluster {after.metadata.name}: created")
    old, new = conditions_of(before), conditions_of(after)
    for name, condition in new.items():
        if old.get(name, {}).get("status") != condition.get("status"):
            lines.append(f"condition {name}={condition.get('status')} ({condition.get('reason')})")
    state = after.status.get("state", "")
    if state != (before.status.get("state", "") if before else ""):
        lines.append(f"cluster state: {state or '-'}")
    return lines


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

    def draw(self, view: ClusterView) -> None:
        """Plain output has no picture."""

    def close(self) -> None:
        """Nothing to restore."""

    def _print(self, text: str) -> None:
        sys.stdout.write(f"{self._elapsed():7.2f}s {text}\n")
        sys.stdout.flush()


class LiveScreen:
    """A picture that is redrawn in place, for terminals. Needs the `cli` extra."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        from rich.live import Live  # noqa: PLC0415  an extra

        self._elapsed = elapsed
        self._steps: list[str] = []
        self._live = Live(refresh_per_second=12, transient=False)
        self._live.start()

    def headline(self, text: str) -> None:
        """Add a step to the list above the picture."""
        self._steps.append(f"{self._elapsed():6.2f}s  {text}")

    def change(self, text: str) -> None:
        """Changes are seen in the picture."""

    def draw(self, view: ClusterView) -> None:
        """Redraw steps, cluster and pods."""
        self._live.update(_picture(self._steps, view))

    def close(self) -> None:
        """Leave the last picture on the terminal."""
        self._live.stop()


def _picture(steps: list[str], view: ClusterView) -> Any:
    from rich.console import Group  # noqa: PLC0415  an extra
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    title = view.state() or ("not ready" if view.cluster else "gone")
    pods = Table(title=f"RayCluster {view.name}: {title}", min_width=72)
    pods.add_column("pod")
    pods.add_column("role")
    pods.add_column("state")
    colours = {"Ready": "green", "Terminating": "magenta"}
    for key in sorted(view.pods):
        state = pod_state(view.pods[key])
        role = (view.pods[key].metadata.labels or {}).get("ray.io/node-type", "")
        pods.add_row(key.partition("/")[2], role, Text(state, style=colours.get(state, "yellow")))
    conditions = Table(min_width=72)
    for title in ("condition", "status", "reason"):
        conditions.add_column(title)
    for name, condition in sorted(conditions_of(view.cluster).items()):
        conditions.add_row(name, str(condition.get("status")), str(condition.get("reason")))
    return Group(*(Text(step, style="bold") for step in steps), pods, conditions)


def screen_for(elapsed: Callable[[], float]) -> Screen:
    """A live screen on a terminal, plain lines elsewhere, with `NO_COLOR`, or without `rich`."""
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        try:
            return LiveScreen(elapsed)
        except ImportError:
            pass
    return PlainScreen(elapsed)
