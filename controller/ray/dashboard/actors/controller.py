"""The dashboards as one controller sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from controller.ray.dashboard.subscriber import Subscriber

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.ray.dashboard.commands.command import CommandOutcome, HeadCommand
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.probes.observation import ProbeObservation
    from controller.ray.dashboard.probes.probe import Probe, ProbeSubscription


class SharedDashboards(Protocol):
    """The part of the dashboards that all controllers share: see `DashboardActors`."""

    def sync(self, subscriber: Subscriber, subscriptions: tuple[ProbeSubscription, ...]) -> None:
        """Replace the probes to which this subscriber subscribes."""
        ...

    def submit(self, subscriber: Subscriber, commands: tuple[HeadCommand, ...]) -> None:
        """Carry out the commands, each once."""
        ...

    async def leave(self, controller: str) -> None:
        """End what only this controller uses."""
        ...

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """Return the last result of a probe."""
        ...

    def outcome(self, head: Head, command_id: tuple[str, str]) -> CommandOutcome | None:
        """Return the outcome of a command."""
        ...


class ControllerDashboards:
    """The dashboards of one controller: the runtime's `ExternalSource`, the kind's `Dashboards`.

    Created by `DashboardActors.for_controller`. Keys and ids of commands are the controller's own;
    probes of one head to which several controllers subscribe are shared.

    Args:
        actors: the shared actors.
        name: name of the controller.
    """

    def __init__(self, actors: SharedDashboards, name: str) -> None:
        self._actors = actors
        self._name = name
        self._closed = False
        self._enqueue: Callable[[str], None] | None = None

    def start(self, enqueue: Callable[[str], None]) -> None:
        """Implement `ExternalSource.start`."""
        self._enqueue = enqueue

    def sync(self, key: str, subscriptions: tuple[ProbeSubscription, ...]) -> None:
        """Implement `ExternalSource.sync`."""
        if not self._closed:
            self._actors.sync(Subscriber(self._name, key), subscriptions)

    def submit(self, key: str, commands: tuple[HeadCommand, ...]) -> None:
        """Implement `ExternalSource.submit`.

        An outcome can be read for as long as the object subscribes to a probe of the same head.
        """
        if not self._closed:
            self._actors.submit(Subscriber(self._name, key), commands)

    async def aclose(self) -> None:
        """Implement `ExternalSource.aclose`; the dashboards of other controllers stay open."""
        self._closed = True
        await self._actors.leave(self._name)

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """Implement `Dashboards.observation`."""
        return self._actors.observation(head, probe)

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        """Implement `Dashboards.outcome`."""
        return self._actors.outcome(head, (self._name, command_id))

    def enqueue(self, key: str) -> None:
        """Make the controller reconcile one of its objects; called by the actors."""
        if self._enqueue is not None:
            self._enqueue(key)
