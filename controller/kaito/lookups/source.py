"""All that Workspaces look up in the background: the runtime's `ExternalSource`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from controller.kaito.lookups.background import BackgroundLookups, LookupLimits
from controller.kaito.lookups.benchmark import BenchmarkLog, read_benchmark

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.kaito.lookups.background import LookupState
    from controller.kaito.lookups.benchmark import Measurement
    from controller.kube.client import Client
    from controller.runtime.external import ExternalCommand
    from informers import Clock


class Lookups(Protocol):
    """The results of the questions that plans have asked."""

    def benchmark(self, log: BenchmarkLog) -> LookupState[Measurement] | None:
        """The measurement in a log; None before it was read."""
        ...


class WorkspaceLookups:
    """Asks the questions that plans of Workspaces subscribe to.

    Args:
        client: reads logs.
        clock: the running loop.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        read = partial(read_benchmark, client)
        self._benchmarks = BackgroundLookups(read, clock, LookupLimits())

    def start(self, enqueue: Callable[[str], None]) -> None:
        """See `ExternalSource.start`."""
        self._benchmarks.start(enqueue)

    def sync(self, key: str, subscriptions: tuple[BenchmarkLog, ...]) -> None:
        """See `ExternalSource.sync`."""
        self._benchmarks.sync(key, subscriptions)

    def submit(self, key: str, commands: tuple[ExternalCommand, ...]) -> None:
        """See `ExternalSource.submit`; there are no commands."""

    async def aclose(self) -> None:
        """See `ExternalSource.aclose`."""
        await self._benchmarks.aclose()

    def benchmark(self, log: BenchmarkLog) -> LookupState[Measurement] | None:
        """See `Lookups.benchmark`."""
        return self._benchmarks.state(log)
