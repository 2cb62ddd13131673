"""One controller: a kind, its queue, and the workers between them (CTL rules).

A worker takes a key, observes and plans in one synchronous step, executes the plan, and requeues
the key if need be. It never sleeps and never waits for an object to appear: the event of that
object enqueues the key. It does not wait long for requests either: a plan whose requests hang is
executed without a worker, while its key stays in flight.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic

import structlog

from controller.apimachinery.custom_object import mapping
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.runtime.execution import PlanExecution, PlanOutcome, Result
from controller.runtime.executor import FAILED_READ, Executor
from controller.runtime.expectations import Expectations
from controller.runtime.kind import Kind, ObjectUnreadable, Observation, Terminal, leaves
from controller.runtime.metrics import ControllerMetrics, ResultLabel
from controller.runtime.plan import Event, ExternalCommand, Plan
from controller.runtime.record import Owner
from controller.runtime.recorder import Recorder
from controller.runtime.status import error_status, held_children
from workqueue import LOW_PRIORITY, Backoff, Clock, QueueMetrics, Workers, WorkQueue

MIN_INTERVAL = 0.05
"""Minimum seconds between two reconciles of a key, unless it has more to do and no other waits."""

PLANNING_FACTOR = 10
"""A key is not reconciled again sooner than after this many times its last planning time."""

BACKOFF = Backoff(base=MIN_INTERVAL, cap=45.0)
"""Delays after exceptions and reads that failed; writes have a rule of their own."""

WORKER_PATIENCE = 0.25
"""Seconds after which a worker leaves a reconcile running and takes the next key.

Sixteen workers pass two hundred keys whose requests all hang in three seconds. At an API server
that answers in 20 ms hardly any reconcile takes as long.
"""

_log = structlog.stdlib.get_logger("manta.reconcile")


# The single log line of a reconcile.


@dataclass(slots=True)
class ReconcileLog:
    """The fields of the line, filled in while the reconcile runs. Times are in milliseconds."""

    name: str
    reconcile_id: str
    priority: int
    observe_ms: float = 0.0
    plan_ms: float = 0.0
    execute_ms: float = 0.0
    result: str = "gone"
    writes: Mapping[str, int] = field(default_factory=dict[str, int])
    requeue_after: float | None = None
    error: str = ""

    def write(self, controller: str, kind: str) -> None:
        """Log the line, on level debug if nothing was written."""
        namespace, _, name = self.name.rpartition("/")
        fields: dict[str, Any] = {
            "controller": controller,
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "reconcile_id": self.reconcile_id,
            "priority": self.priority,
            "observe_ms": round(self.observe_ms, 2),
            "plan_ms": round(self.plan_ms, 2),
            "execute_ms": round(self.execute_ms, 2),
            "result": self.result,
        }
        if self.writes:
            fields["writes"] = dict(self.writes)
        if self.requeue_after is not None:
            fields["requeue_after"] = round(self.requeue_after, 3)
        if self.error:
            fields["error"] = self.error
        if self.result in {"error", "terminal", "failed"}:
            _log.warning("reconcile", **fields)
        elif self.writes:
            _log.info("reconcile", **fields)
        else:
            _log.debug("reconcile", **fields)


class Controller(Generic[Observation]):
    """Reconciles the objects of one kind.

    Args:
        workers: maximum concurrent reconciles, apart from those whose requests take long.
        slow_reconciles: maximum number of those.
        queue_metrics: receives the queue's measurements.
        timeout: seconds that one execution may take; 0 for no limit.
        on_edit: called with the resource and the key of an object before a new generation of it is
            planned for.

    Attributes:
        errors: the last error of each key that is failing.
    """

    def __init__(
        self,
        kind: Kind[Observation],
        *,
        expectations: Expectations,
        executor: Executor,
        recorder: Recorder,
        metrics: ControllerMetrics,
        workers: int,
        slow_reconciles: int,
        clock: Clock,
        wall: Callable[[], datetime],
        rng: random.Random,
        queue_metrics: QueueMetrics | None = None,
        timeout: float,
        on_edit: Callable[[Resource[Any], str], None] = lambda _resource, _key: None,
    ) -> None:
        self.name = kind.name
        self._owners: dict[str, Owner] = {}  # as each was seen last
        self.queue: WorkQueue[str] = WorkQueue(
            kind.name,
            clock=clock,
            rng=rng,
            metrics=queue_metrics,
            backoff=BACKOFF,
            begun=self._owners.__contains__,
        )
        self._kind = kind
        self._expectations = expectations
        self._executor = executor
        self._recorder = recorder
        self._metrics = metrics
        self.workers = Workers(
            self.queue,
            self._process_key,
            workers,
            name=f"{kind.name} worker",
            clock=clock,
            patience=WORKER_PATIENCE,
            limit=slow_reconciles,
        )
        metrics.observe_workers(self.workers)
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._timeout = timeout
        self._on_edit = on_edit
        self.errors: dict[str, str] = {}
        self._external_source = kind.external_source
        if self._external_source is not None:
            self._external_source.start(self.enqueue)

    def enqueue(self, key: str) -> None:
        """Reconcile a key, whether its object has changed or not."""
        self.queue.add(key)

    @property
    def primary(self) -> Resource[Any]:
        """The resource of the keys."""
        return self._kind.primary

    def reconsider(self, keys: Iterable[str]) -> None:
        """Reconcile these keys with low priority: their definition or the time has changed."""
        for key in keys:
            if (owner := self._owners.get(key)) is not None:
                self._executor.forget_pruned_fields(owner.uid)
            self.queue.add(key, priority=LOW_PRIORITY)

    async def run(self) -> None:
        """Work until the queue is closed and the reconciles in flight have ended."""
        try:
            await self.workers.run()
        finally:
            if self._external_source is not None:
                await self._external_source.aclose()

    def close(self) -> None:
        """Start no more reconciles, not even of keys that are queued (MGR-9)."""
        self.queue.close()

    async def _process_key(self, key: str) -> None:
        """Reconcile a key once."""
        identifier = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        line = ReconcileLog(key, str(identifier), self.queue.priority_of(key))
        began = self._clock.time()
        try:
            await self._reconcile(key, line)
        except Exception as error:  # noqa: BLE001  a faulty object must not end a worker
            try:
                await self._handle_exception(key, error, line)
            except Exception as second:  # noqa: BLE001  not even one that cannot be reported
                _log.error("error_report.failed", name=key, exc_info=second)
        failing = self.queue.num_requeues(key) > 0
        if failing:
            self.errors[key] = line.error or line.result
        else:
            self.errors.pop(key, None)
        self._metrics.seconds.observe(self._clock.time() - began)
        line.write(self.name, self._kind.primary.kind)

    async def _reconcile(self, key: str, line: ReconcileLog) -> None:
        began, now = self._clock.time(), self._wall()  # a jump is noticed before `observe`
        due = began - self.queue.waited(key)
        overlay = self._expectations.overlay(self._kind.primary)
        if overlay.why_unreadable(key):
            self._metrics.reconciled("success")
            return  # it stays as it is until it can be decoded, which enqueues it
        primary = self._expectations.reader.get(self._kind.primary, key)
        owner = self._observe_owner(key, primary)
        observation = self._kind.observe(key, self._expectations.reader)
        observed = self._clock.time()
        line.observe_ms = 1e3 * (observed - began)
        if observation is None or primary is None or owner is None:
            # If that were forgotten before the cache shows it, the object would be back.
            if overlay.stores(key):
                self._metrics.reconciled("success")
            else:
                self._observe_deletion(key)
            return
        record = self._expectations.record(owner.uid)
        for resource in record.pending_resources:
            self._metrics.stale(resource)
        try:
            plan = self._kind.plan(observation, now)
        finally:
            planned = self._clock.time()
            line.plan_ms = 1e3 * (planned - observed)
            self._metrics.planning.observe(planned - began)
            self.queue.hold(key, max(MIN_INTERVAL, PLANNING_FACTOR * (planned - began)))
        if plan.memory is not None:
            record.remember(plan.memory)
        if self._external_source is not None:
            self._external_source.sync(key, plan.subscriptions)
        execution = self._execution(key, owner, primary, observation, plan, due=due)
        try:
            outcome = await self._execute(execution)
        finally:
            line.execute_ms = 1e3 * (self._clock.time() - planned)
        self._handle_result(key, outcome, line)
        if outcome.error and self.queue.num_requeues(key) > 1:
            await self._report_error(key, primary, FAILED_READ, line)

    def _execution(
        self,
        key: str,
        owner: Owner,
        primary: KubeObject,
        observation: Observation,
        plan: Plan,
        *,
        due: float,
    ) -> PlanExecution:
        """Return the plan with what its execution needs; `due` is a time of the loop."""
        return PlanExecution(
            owner=owner,
            resource=self._kind.primary,
            primary=primary,
            plan=plan,
            status_after=lambda failures: self._kind.status_after(
                observation, plan, failures, self._wall()
            ),
            emit=lambda event: self._emit(primary, event),
            submit=lambda: self._submit(key, plan.commands),
            first_write=lambda: self._metrics.first_write(self._clock.time() - due),
            measure=lambda ended: self._metrics.phase(ended.phase, ended.seconds),
            wall=self._wall,
            held=held_children(self._kind.owned, self._expectations.reader, owner),
        )

    async def _execute(self, execution: PlanExecution) -> PlanOutcome:
        """Carry out a plan within the time limit.

        After a timeout the outcome of the writes in flight is unknown.
        """
        limit = asyncio.timeout(self._timeout or None)
        try:
            async with limit:
                return await self._executor.execute(execution)
        except TimeoutError:
            if limit.expired():
                self._metrics.timeouts.inc()
            raise

    def _submit(self, key: str, commands: tuple[ExternalCommand, ...]) -> None:
        if self._external_source is not None and commands:
            self._external_source.submit(key, commands)

    def _observe_owner(self, key: str, primary: KubeObject | None) -> Owner | None:
        if primary is None:
            return None
        meta = primary.metadata
        if (known := self._owners.get(key)) is not None and known.uid != meta.uid:
            self._observe_deletion(key)
            known = None
        owner = Owner(meta.uid, key, self.name, meta.terminating, meta.generation)
        self._owners[key] = owner
        if known is None:  # the status has the last generation
            status = mapping(getattr(primary, "status", None))
            before = status.get("observedGeneration", meta.generation)
        else:
            before = known.generation
        if before != meta.generation:
            self._on_edit(self._kind.primary, key)
        self._expectations.add_owner(owner)
        return owner

    def _observe_deletion(self, key: str) -> None:
        """Forget everything about an object that no longer exists."""
        self._expectations.remove_owner(self.name, key)
        self._owners.pop(key, None)
        self.queue.forget(key)
        self._metrics.reconciled("success")
        if self._external_source is not None:
            self._external_source.sync(key, ())

    def _handle_result(self, key: str, outcome: PlanOutcome, line: ReconcileLog) -> None:
        """Requeue the key if need be, with its priority."""
        line.result = outcome.result.value
        line.writes = outcome.writes
        line.requeue_after = outcome.requeue_after
        line.error = outcome.error
        if outcome.failures:
            line.error = f"{outcome.failures[0].reason}: {outcome.failures[0].message}"
        for verb, count in outcome.writes.items():
            self._metrics.wrote(verb, count)
        result: ResultLabel = "requeue"
        match outcome.result:
            case Result.DONE:
                self.queue.forget(key)
                result = "success" if outcome.requeue_after is None else "requeue_after"
            case Result.MORE:
                if not self.queue:  # no other key waits, so the minimum interval does not apply
                    self.queue.hold(key, 0.0)
                self.queue.add(key)
            case Result.AGAIN | Result.WAIT:
                self._retry_later(key, outcome)
            case Result.FAILED:
                self._retry_later(key, outcome)
                self._metrics.errors.inc()
                result = "error"
        if outcome.requeue_after is not None and outcome.result is not Result.MORE:
            self.queue.add_after(key, outcome.requeue_after)
        if outcome.ask_after is not None:
            self.queue.add_after(key, outcome.ask_after, retry=False)
        self._metrics.reconciled(result)

    def _retry_later(self, key: str, outcome: PlanOutcome) -> None:
        """Requeue a key that has failed; one that an event woke before its time fails no more."""
        wait = outcome.retry_after
        if wait is not None and not outcome.writes and self.queue.num_requeues(key):
            self.queue.add_after(key, wait)
        else:
            self.queue.add_rate_limited(key, delay=wait)

    async def _handle_exception(self, key: str, error: Exception, line: ReconcileLog) -> None:
        """Handle an exception: back-off, counters, event, condition, for this key only.

        Of several, raised by tasks that run together, the first is reported.
        """
        error, *_ = leaves(error)
        line.result = "error"
        line.error = f"{type(error).__name__}: {error}"
        self._metrics.errors.inc()
        self._metrics.reconciled("error")
        if isinstance(error, Terminal):
            line.result = "terminal"
            self._metrics.terminal_errors.inc()
        else:
            self.queue.add_rate_limited(key)
            if not isinstance(error, TimeoutError | ObjectUnreadable):
                self._metrics.panics.inc()
                _log.error("reconcile.exception", name=key, exc_info=error)
        primary = self._expectations.reader.get(self._kind.primary, key)
        if primary is not None:
            is_named = isinstance(error, Terminal | ObjectUnreadable)
            reason = error.reason if is_named else "ReconcileError"
            self._emit(primary, Event("Warning", reason, "Reconcile", line.error, quotes=True))
            if isinstance(error, Terminal) or self.queue.num_requeues(key) > 1:
                await self._report_error(key, primary, reason, line)

    async def _report_error(
        self, key: str, primary: KubeObject, reason: str, line: ReconcileLog
    ) -> None:
        """Report a persistent error in a condition; if that fails, only the event reports it."""
        shared = self._kind.unready_reason
        status = error_status(primary, reason, line.error, self._wall(), shared)
        execution = PlanExecution(
            owner=Owner(primary.metadata.uid, key, self.name),
            resource=self._kind.primary,
            primary=primary,
            plan=Plan(status=status),
            status_after=lambda _: None,
            emit=lambda event: self._emit(primary, event),
            failing=True,
            wall=self._wall,
            held=held_children(self._kind.owned, self._expectations.reader, primary.metadata),
        )
        try:
            outcome = await self._execute(execution)
            line.writes = outcome.writes
        except Exception as error:  # noqa: BLE001  as above
            _log.warning("error_condition.failed", name=key, error=str(error))

    def _emit(self, primary: KubeObject, event: Event) -> None:
        self._recorder.record(self._kind.primary, primary.metadata, event, reporter=self.name)
