"""One RayService: its status, its clusters and pods, and further lines of a demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.custom_object import conditions_of, mapping, status_of
from controller.command.development.view.clusters import ClustersView
from controller.command.development.view.pods import pod_state, pods_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from controller.command.development.view.screens import Screen
    from controller.ray.api.rayservice import RayService

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
