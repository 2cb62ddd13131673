"""The views of RayJobs and RayServices, and of their clusters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import conditions_of, mapping, status_of
from controller.command.development.view.screens import Changes, pod_state, pods_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from controller.command.development.view.screens import Screen
    from controller.kube.objects import Pod
    from controller.ray.api import RayCluster
    from controller.ray.api.rayjob import RayJob
    from controller.ray.api.rayservice import RayService


# The RayClusters and pods that a view shows, and all that there ever were.

T = TypeVar("T")


class ClustersView(ABC):
    """The current state of clusters and pods, updated by informer handlers.

    Attributes:
        clusters: by key, all that exist now.
        pods: by key, all that exist now.
        clusters_seen: names of all clusters seen so far.
        pods_seen: keys of all pods seen so far.
    """

    def __init__(self, screen: Screen) -> None:
        self.clusters: dict[str, RayCluster] = {}
        self.pods: dict[str, Pod] = {}
        self.clusters_seen: set[str] = set()
        self.pods_seen: set[str] = set()
        self._screen = screen
        self._changes = Changes()

    def saw_cluster(self, key: str, cluster: RayCluster | None) -> None:
        """Update a cluster; None once it is deleted."""
        before = _cluster_state(_replace(self.clusters, self.clusters_seen, key, cluster))
        self._show_change(f"cluster {key.partition('/')[2]}", before, _cluster_state(cluster))

    def saw_pod(self, key: str, pod: Pod | None) -> None:
        """Update a pod; None once it is deleted."""
        before = pod_state(_replace(self.pods, self.pods_seen, key, pod))
        self._show_change(f"pod {key.partition('/')[2]}", before, pod_state(pod))

    async def until(self, reached: Callable[[Self], bool]) -> None:
        """Wait until the state satisfies `reached`. The caller sets the time limit."""
        await self._changes.until(lambda: reached(self))

    def _show_change(self, subject: str, before: str, state: str) -> None:
        if state != before:
            self._screen.change(f"{subject}: {state}")
        self._redraw()

    def _redraw(self) -> None:
        self._screen.draw(self._picture)
        self._changes.notify()

    @abstractmethod
    def _picture(self) -> Any:
        """Return something that `rich` can render."""


def _replace(known: dict[str, T], seen: set[str], key: str, new: T | None) -> T | None:
    """Store `new` under `key`, or remove the key where it is None; returns what was there."""
    before = known.pop(key, None)
    if new is not None:
        known[key] = new
        seen.add(key)
    return before


def _cluster_state(cluster: RayCluster | None) -> str:
    if cluster is None:
        return "gone"
    if cluster.metadata.terminating:
        return "Terminating"
    return str(cluster.status.get("state") or "not ready")


# One RayJob: its status, its attempts, their clusters and pods, and what the job prints.

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


# One RayService: its status, its clusters and pods, and further lines of a demo.

_ROLES = {"activeServiceStatus": "active", "pendingServiceStatus": "pending"}


class ServiceView(ClustersView):
    """The current state of one RayService, updated by informer handlers.

    Args:
        name: name of the RayService.
        screen: where changes are shown.
        lines: what the picture shows below the pods.

    Attributes:
        service: as it is now; None if it does not exist.
        on_change: called when the RayService has changed.
    """

    def __init__(self, name: str, screen: Screen, lines: Callable[[], Sequence[str]]) -> None:
        super().__init__(screen)
        self.name = name
        self.service: RayService | None = None
        self.on_change: list[Callable[[], None]] = []
        self._lines = lines

    @property
    def active(self) -> str:
        """Name of the active cluster; empty if there is none."""
        return self._cluster("activeServiceStatus")

    @property
    def pending(self) -> str:
        """Name of the pending cluster; empty if there is none."""
        return self._cluster("pendingServiceStatus")

    @property
    def is_ready(self) -> bool:
        """True if the condition `Ready` is true."""
        return self.condition("Ready")

    def condition(self, name: str) -> bool:
        """Return whether a condition is true."""
        return _conditions(self.service).get(name) == "True"

    def shares(self) -> dict[str, tuple[int, int]]:
        """Return the capacity and weight of each cluster in percent, by name.

        Beside an incremental upgrade the active cluster has everything.
        """
        status = status_of(self.service) if self.service else {}
        found: dict[str, tuple[int, int]] = {}
        for role, default in (("activeServiceStatus", 100), ("pendingServiceStatus", 0)):
            recorded = mapping(status.get(role))
            if name := recorded.get("rayClusterName"):
                values = (
                    recorded.get(field) for field in ("targetCapacity", "trafficRoutedPercent")
                )
                capacity, weight = (default if each is None else int(each) for each in values)
                found[str(name)] = (capacity, weight)
        return found

    def pod_is_ready(self, key: str) -> bool:
        """Return whether a pod is ready."""
        return pod_state(self.pods.get(key)) == "Ready"

    def saw_service(self, key: str, service: RayService | None) -> None:
        """Update the RayService; None once it is deleted."""
        if key.partition("/")[2] != self.name:
            return
        before, self.service = self.service, service
        for line in _changes(before, service):
            self._screen.change(f"RayService {self.name}: {line}")
        for one in self.on_change:
            one()
        self._redraw()

    def show(self, line: str) -> None:
        """Show something else that has happened; waiting tasks look again."""
        self._screen.change(line)
        self._redraw()

    def refresh(self) -> None:
        """Redraw the lines; waiting tasks check again."""
        self._redraw()

    def _cluster(self, role: str) -> str:
        status = status_of(self.service) if self.service else {}
        return str(mapping(status.get(role)).get("rayClusterName") or "")

    def _picture(self) -> Any:
        from rich.console import Group  # noqa: PLC0415  an extra
        from rich.text import Text  # noqa: PLC0415

        words = ", ".join(_words(self.service)) if self.service else "gone"
        table = pods_table(f"RayService {self.name}: {words}", self.pods)
        return Group(table, *map(Text, self._lines()))


def _changes(before: RayService | None, after: RayService | None) -> Iterator[str]:
    if after is None:
        yield "gone"
        return
    known = _words(before)
    yield from (word for word in _words(after) if word not in known)


def _words(service: RayService | None) -> list[str]:
    """Return the status in words."""
    if service is None:
        return []
    conditions = _conditions(service).items()
    return [
        *(f"{name}={status}" for name, status in conditions),
        *(_cluster_words(service, field, role) for field, role in _ROLES.items()),
    ]


def _cluster_words(service: RayService, field: str, role: str) -> str:
    status = mapping(status_of(service).get(field))
    name = status.get("rayClusterName")
    if not name:
        return f"no {role} cluster"
    shares = (
        (status.get("targetCapacity"), "capacity"),
        (status.get("trafficRoutedPercent"), "of the requests"),
    )
    words = [f"{value} % {what}" for value, what in shares if value is not None]
    return f"{role} cluster {name}" + (f" ({', '.join(words)})" if words else "")


def _conditions(service: RayService | None) -> dict[str, str]:
    listed = conditions_of(service) if service else []
    return {str(each.get("type")): str(each.get("status")) for each in listed}
