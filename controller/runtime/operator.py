"""Assembles an operator from kinds, a client and the settings.

The caller passes in clocks, randomness and a registry; nothing below creates its own.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector

import controller
from controller.apimachinery.conditions import rfc3339
from controller.kube.client import Client
from controller.kube.resources import PODS, Resource
from controller.runtime.cache import Cache, CacheScope, entry_of
from controller.runtime.caches import Caches
from controller.runtime.controller import Controller
from controller.runtime.debug import (
    LIMIT,
    BackingOffKey,
    BoundedList,
    ControllerEntry,
    DebugPage,
    InformerEntry,
    RunEntry,
    cause,
    listing,
    tasks,
)
from controller.runtime.election import AlwaysLeader, Election
from controller.runtime.execution import LookupReader
from controller.runtime.executor import Executor
from controller.runtime.expectations import Expectations
from controller.runtime.health import DebugServer, Health, MonitoringServer
from controller.runtime.kind import Kind, RuntimeFailure, leaves, missing_members
from controller.runtime.manager import Group, Manager, Monitor, Runnable, TimeOfDay, Writers
from controller.runtime.metrics import (
    ClientCollector,
    EventCollector,
    ExpectationCollector,
    RuntimeMetrics,
)
from controller.runtime.overlay import metadata_of
from controller.runtime.plan import Event
from controller.runtime.record import Owner
from controller.runtime.recorder import Recorder
from controller.runtime.schemas import InstalledSchemas
from controller.runtime.settings import Settings, current_level, parse_address
from controller.runtime.writer import Writer
from informers import Clock, InformerMetrics, Undecodable
from informers.prometheus import InformerCollector, InformerLabels
from workqueue.prometheus import QueueCollector

_log = structlog.stdlib.get_logger("manta.operator")


class Operator:
    """One operator process.

    Args:
        client: access to the API server; the caller closes it after `run`.
        kinds: what is reconciled. Names and primary resources must be unique.
        election: decides whether this process may write; always, if None: then a cache that was
            read at quorum is not compared with a second read.
        on_synced: called once, when all caches are complete; a good time for `gc.freeze`.

    Attributes:
        controllers: by the name of their kind; `enqueue` may be called from outside.
        health: checks may be added before `run`.
        debug: sections may be added before `run`.
    """

    def __init__(
        self,
        client: Client,
        kinds: Sequence[Kind[Any]],
        settings: Settings,
        *,
        clock: Clock,
        wall: Callable[[], datetime],
        rng: random.Random,
        registry: CollectorRegistry,
        election: Election | None = None,
        on_synced: Callable[[], None] | None = None,
    ) -> None:
        for kind in kinds:
            if missing := missing_members(kind):
                raise TypeError(f"{type(kind).__name__} lacks {'; '.join(missing)}")
        if len({kind.name for kind in kinds}) != len(kinds):
            raise ValueError("two kinds have the same name")
        if len({kind.primary for kind in kinds}) != len(kinds):  # an object has one record
            raise ValueError("two kinds have the same primary resource")
        self._kinds = tuple(kinds)
        self._settings = settings
        self._clock = clock
        self._registry = registry
        self._metrics = RuntimeMetrics(registry, version=controller.__version__)
        self._time_of_day = TimeOfDay(wall, clock=clock, on_jump=self._clock_jumped)
        self.expectations = Expectations(now=clock.time, wall=self._time_of_day)
        registry.register(ExpectationCollector(self.expectations.statistics))
        registry.register(ClientCollector(lambda: client))
        ProcessCollector(registry=registry)
        leads = AlwaysLeader() if election is None else election
        self._alone = election is None
        writer = Writer(client, self.expectations, fence=leads)
        self.recorder = Recorder(
            client,
            instance=settings.identity or "manta-operator",
            clock=clock,
            wall=self._time_of_day,
            rng=rng,
            fence=leads,
        )
        registry.register(EventCollector(lambda: self.recorder.statistics))
        self.schemas = InstalledSchemas(
            client,
            {PODS, *(kind.primary for kind in kinds)},
            on_change=self._schema_changed,
            on_verified=self._verified,
            reread=self._reread,
        )
        self.controllers = self._new_controllers(writer, client, rng)
        self.caches = self._new_caches(client, rng, on_synced)
        self._manager = Manager(clock=clock, grace=settings.grace_seconds, election=leads)
        self.health = Health()
        self._monitor = Monitor(self._metrics, clock=clock, time_of_day=self._time_of_day)
        self.debug = DebugPage()
        self._connect()
        self._describe(clock, wall)

    def add_writer(self, writer: Runnable) -> None:
        """Run something beside the controllers, only while this process leads."""
        self._manager.add(Group.ELECTED, writer)

    def add_server(self, server: Runnable) -> None:
        """Run something that answers requests, whether this process leads or not."""
        self._manager.add(Group.HTTP, server)

    async def run(self, stop: asyncio.Event) -> int:
        """Run until `stop` is set; returns the exit status.

        0 after a clean stop, 1 if something failed or did not end in time. Errors are
        logged, as one paragraph with cause and remedy where they are known.

        Raises:
            ManagerMisuse: a second call.
        """
        for server in self._servers():
            self._manager.add(Group.HTTP, server)
        if self._settings.debug_port:
            self._manager.add(Group.HTTP, DebugServer(self._settings.debug_port, self.debug))
        self._manager.add(Group.CACHES, self.caches)
        self._manager.add(Group.ALWAYS, self.recorder)
        self._manager.add(Group.ALWAYS, self._monitor)
        self._manager.add(Group.ALWAYS, self.schemas)
        controllers = list(self.controllers.values())
        writers = Writers(self.caches, controllers, self._begin_to_lead)
        self._manager.add(Group.ELECTED, writers)
        try:
            await self._manager.run(stop)
        except ExceptionGroup as errors:
            for error in leaves(errors):
                expected = isinstance(error, RuntimeFailure | OSError)
                _log.error(
                    "operator.failed", error=str(error), exc_info=None if expected else error
                )
            return 1
        return 0

    def _new_controllers(
        self, writer: Writer, client: Client, rng: random.Random
    ) -> dict[str, Controller[Any]]:
        settings, lookups = self._settings, LookupReader(client, self.expectations)
        queues = QueueCollector(self._registry)
        return {
            kind.name: Controller(
                kind,
                expectations=self.expectations,
                executor=Executor(
                    writer, lookups, self.expectations, now=self._clock.time, rng=rng
                ),
                recorder=self.recorder,
                metrics=self._metrics.controller(kind.name, settings.workers),
                workers=settings.workers,
                slow_reconciles=settings.slow_reconciles,
                clock=self._clock,
                wall=self._time_of_day,
                rng=rng,
                queue_metrics=queues,
                timeout=settings.reconcile_timeout_seconds,
                on_edit=self.schemas.edited,
            )
            for kind in self._kinds
        }

    def _new_caches(
        self, client: Client, rng: random.Random, on_synced: Callable[[], None] | None
    ) -> Caches:
        return Caches(
            client,
            self._kinds,
            expectations=self.expectations,
            namespaces=self._settings.namespaces,
            clock=self._clock,
            rng=rng,
            sync_timeout=self._settings.sync_timeout_seconds,
            metrics=_informer_metrics(self._registry, self._clock),
            on_synced=on_synced,
            on_quarantine=self._quarantined,
            on_watch=self.schemas.watch_begins,
            on_available=self._available,
        )

    def _connect(self) -> None:
        """Let the parts that were made find each other."""
        self.expectations.enqueue = self._enqueue
        self.expectations.reader.installed_schemas = self.schemas.found
        self.expectations.reader.unverified = self.schemas.unverified
        for kind in self._kinds:
            self.caches.serve(self.controllers[kind.name], kind)
        self.health.add_readiness("caches", self.caches.unready)
        self.health.add_readiness("stopping", self._stopping)

    def _describe(self, clock: Clock, wall: Callable[[], datetime]) -> None:
        """Fill the debug page with what belongs to the runtime."""
        monitor, expectations, caches = self._monitor, self.expectations, self.caches
        add = self.debug.add
        add("version", lambda: controller.__version__)
        add("time", lambda: rfc3339(wall()))
        add("log_level", current_level)
        add("event_loop", monitor.lag)
        add("controllers", lambda: listing(self.controllers.values(), _entry_of))
        add("expectations", expectations.snapshot)
        add("informers", lambda: _informers(caches.caches, clock.time()))
        add("tasks", tasks)

    def _enqueue(self, owner: Owner) -> None:
        self.controllers[owner.controller].enqueue(owner.key)

    def _available(self, resource: Resource[Any]) -> None:
        """Plan all objects of the kinds that own this resource again: they may wait for it."""
        for kind in self._kinds:
            if any(owned.resource == resource for owned in kind.owned):
                self.controllers[kind.name].reconsider(self.caches.keys(kind.primary))

    def _schema_changed(self, resource: Resource[Any]) -> None:
        """Plan all objects again: the server may now store other fields than before."""
        for each in self.controllers.values():
            if resource in {PODS, each.primary}:
                each.reconsider(self.caches.keys(each.primary))

    async def _reread(self, resource: Resource[Any]) -> None:
        await self.caches.reread(resource)

    def _verified(self, resource: Resource[Any], keys: list[str]) -> None:
        """Plan edited objects again that may have waited for the schema."""
        for each in self.controllers.values():
            for key in keys if each.primary == resource else ():
                each.enqueue(key)

    def _begin_to_lead(self) -> float:
        """Return since when this process leads. It has written no time in the future."""
        self.expectations.reader.clock_steady_since = self._time_of_day()
        return -math.inf if self._alone else self._clock.time()  # alone: it has always led

    def _clock_jumped(self, seconds: float, now: datetime) -> None:
        """Plan all objects again: their deadlines and schedules are due at other moments."""
        _log.warning("clock.jumped", seconds=round(seconds, 1))
        self.expectations.reader.clock_jumped_at = now
        self.expectations.reader.clock_steady_since = now
        for each in self.controllers.values():
            each.reconsider(self.caches.keys(each.primary))

    def _quarantined(self, resource: Resource[Any], odd: Undecodable) -> None:
        """Report an object that cannot be decoded. Events need an object with a name."""
        _log.warning("object.unreadable", resource=str(resource), key=odd.key, reason=odd.reason)
        if odd.key:
            event = Event("Warning", "Unreadable", "Decode", odd.reason)
            self.recorder.record(resource, metadata_of(odd), event)

    def _stopping(self) -> str | None:
        return "the operator is stopping" if self._manager.stopping else None

    def _servers(self) -> list[MonitoringServer]:
        """Return the monitoring servers: one if both addresses are the same."""
        health = parse_address(self._settings.health_address)
        metrics = parse_address(self._settings.metrics_address)
        if health is not None and health == metrics:
            return [MonitoringServer(health, health=self.health, registry=self._registry)]
        servers: list[MonitoringServer] = []
        if health is not None:
            servers.append(MonitoringServer(health, health=self.health))
        if metrics is not None:
            servers.append(MonitoringServer(metrics, registry=self._registry))
        return servers


def _informer_metrics(
    registry: CollectorRegistry, clock: Clock
) -> Callable[[CacheScope], InformerMetrics]:
    collector = InformerCollector(registry, clock=clock)

    def of(selection: CacheScope) -> InformerMetrics:
        resource = selection.resource
        return collector.recorder(
            InformerLabels(selection.name, resource.group, resource.version, resource.plural)
        )

    return of


def _entry_of(controller: Controller[Any]) -> ControllerEntry:
    """Return what the debug page shows of a controller."""
    queue = controller.queue.snapshot(LIMIT)
    numbers = queue.statistics
    return ControllerEntry(
        name=controller.name,
        length=numbers.ready,
        dirty=sum(numbers.dirty.values()),
        delayed=numbers.delayed,
        workers=controller.workers.busy,
        slow=controller.workers.released,
        processing=listing(
            queue.running,
            lambda run: RunEntry(run.key, round(run.seconds, 3)),
            total=numbers.processing,
        ),
        backing_off=listing(
            queue.failing,
            lambda failing: BackingOffKey(
                key=failing.key,
                failures=failing.failures,
                failing=round(failing.seconds, 3),
                next_run=None if failing.due is None else round(failing.due, 3),
                cause=cause(controller.errors.get(failing.key, "")),
            ),
            total=numbers.failing,
        ),
    )


def _informers(caches: Sequence[Cache], now: float) -> BoundedList[InformerEntry]:
    """Return what the debug page shows of the caches, the longest silent one first."""
    return listing(
        caches,
        lambda cache: entry_of(cache, now),
        rank=lambda item: -math.inf if item.last_byte is None else -item.last_byte,
    )
