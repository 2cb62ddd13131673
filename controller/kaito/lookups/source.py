"""The background look-ups of Workspaces, as an `ExternalSource` of the runtime."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from controller.kaito.lookups.background import BackgroundLookups, LookupFailed, LookupLimits
from controller.kaito.lookups.benchmark import BenchmarkLog, read_benchmark
from controller.kaito.lookups.huggingface import UNAVAILABLE, HuggingFace, ModelMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.kaito.lookups.background import LookupState
    from controller.kaito.lookups.benchmark import Measurement
    from controller.kaito.lookups.http import WebReader
    from controller.kaito.presets import Model
    from controller.kube.client import Client
    from controller.runtime.external import ExternalCommand
    from informers import Clock


class Lookups(Protocol):
    """The results of the questions that plans have asked."""

    def benchmark(self, log: BenchmarkLog) -> LookupState[Measurement] | None:
        """Return the measurement in a log; None before it was read."""
        ...

    def model(self, wanted: ModelMetadata) -> LookupState[Model] | None:
        """Return the facts about a model; None before it was asked for."""
        ...


_MODELS: Final = LookupLimits(concurrency=4, longest_pause=600.0)


class WorkspaceLookups:
    """Asks the questions that plans of Workspaces subscribe to.

    Args:
        client: reads logs and Secrets.
        clock: the running loop.
        hub: reads documents of Hugging Face; None if it is not asked. Closed together with this.
    """

    def __init__(self, client: Client, clock: Clock, hub: WebReader | None = None) -> None:
        self._hub = hub
        read = partial(read_benchmark, client)
        self._benchmarks = BackgroundLookups(read, clock, LookupLimits())
        ask = HuggingFace(hub, client) if hub is not None else _ask_nobody
        self._models = BackgroundLookups(ask, clock, _MODELS)

    def start(self, enqueue: Callable[[str], None]) -> None:
        """Implement `ExternalSource.start`."""
        self._benchmarks.start(enqueue)
        self._models.start(enqueue)

    def sync(self, key: str, subscriptions: tuple[BenchmarkLog | ModelMetadata, ...]) -> None:
        """Implement `ExternalSource.sync`."""
        logs = [each for each in subscriptions if isinstance(each, BenchmarkLog)]
        models = [each for each in subscriptions if isinstance(each, ModelMetadata)]
        self._benchmarks.sync(key, logs)
        self._models.sync(key, models)

    def submit(self, key: str, commands: tuple[ExternalCommand, ...]) -> None:
        """Implement `ExternalSource.submit`; there are no commands."""

    async def aclose(self) -> None:
        """Implement `ExternalSource.aclose`."""
        await self._benchmarks.aclose()
        await self._models.aclose()
        if self._hub is not None:
            await self._hub.aclose()

    def benchmark(self, log: BenchmarkLog) -> LookupState[Measurement] | None:
        """Implement `Lookups.benchmark`."""
        return self._benchmarks.state(log)

    def model(self, wanted: ModelMetadata) -> LookupState[Model] | None:
        """Implement `Lookups.model`."""
        return self._models.state(wanted)


async def _ask_nobody(_wanted: ModelMetadata) -> Model:
    raise LookupFailed(UNAVAILABLE, "Hugging Face is not asked")
