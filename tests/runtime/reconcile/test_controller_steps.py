"""What a single reconcile does, step by step: queue, metrics, log line, events and conditions."""

from __future__ import annotations

import asyncio
import random
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.kube.objects import ObjectMeta
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.controller import Controller, ReconcileLog
from controller.runtime.execution import PlanExecution, PlanOutcome, Result
from controller.runtime.kind import Owned
from controller.runtime.metrics import RuntimeMetrics
from controller.runtime.plan import (
    Event,
    ExternalCommand,
    Failure,
    Plan,
    StatusPatch,
    Subscription,
)
from controller.runtime.record import Owner
from tests.runtime.kit import NOW, child, create
from tests.runtime.widgets import WIDGETS, Widget

KEY = "default/f"
META = ObjectMeta(name="f", namespace="default", uid="uid-f", resource_version="5")
WIDGET = Widget(metadata=META)
OWNER = Owner("uid-f", KEY, "widgets")
HELD = ("hold", KEY, 0.05)


class Notes:
    """Notes every call; `answers` gives what a method returns, None by default."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, *arguments, *([options] if options else [])))
            return self.answers.get(name)

        return call


class Queue(Notes):
    def __init__(self) -> None:
        super().__init__(priority_of=-3, waited=2.5)
        self.requeues = 0
        self.waiting = 0

    def __len__(self) -> int:
        return self.waiting

    def num_requeues(self, key: str) -> int:
        assert key == KEY
        return self.requeues

    def add_rate_limited(self, key: str, *, delay: float | None = None) -> None:
        self.requeues += 1
        self.calls.append(("add_rate_limited", key, *([] if delay is None else [delay])))

    @property
    def changes(self) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] not in {"priority_of", "waited"}]


@dataclass
class Bench:
    """A controller whose every neighbour is a double. `outcomes` are of the plans, one by one."""

    outcomes: list[Any] = field(default_factory=list[Any])
    primary: Widget | None = WIDGET
    external: Notes | None = None
    timeout: float = 0.0
    plan: Any = Plan(subscriptions=(Subscription(),), commands=(ExternalCommand(),))  # noqa: RUF009
    seconds: float = 100.0  # of the clock, which began at 100
    observing: float = 0.0
    planning: float = 0.0
    executing: float = 0.0
    pending: tuple[Any, ...] = ()
    unready_reason: str = ""
    children: list[Any] = field(default_factory=list[Any])
    executions: list[PlanExecution] = field(default_factory=list[Any])
    edits: list[Any] = field(default_factory=list[Any])
    planned: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.name, self.external_source = "widgets", self.external
        self.queue, self.recorder, self.queue_metrics = Queue(), Notes(), Notes()
        self.forgotten: list[str] = []
        self.clock = SimpleNamespace(time=lambda: self.seconds)
        self.rng = random.Random(1)
        self.registry = CollectorRegistry()
        self.is_stored = False
        self.reader = SimpleNamespace(
            get=self._get,
            serves=lambda _resource: True,
            by_index=lambda _resource, _index, uid: self.children if uid == "uid-f" else [],
        )
        self.record = Notes(overdue_failures=("overdue",))
        self.record.pending_resources = self.pending  # type: ignore[attr-defined]
        self.expectations = Notes(
            record=self.record,
            overlay=SimpleNamespace(
                why_unreadable=lambda _key: "", stores=lambda _key: self.is_stored
            ),
        )
        self.expectations.reader = self.reader  # type: ignore[attr-defined]
        parts: Any = {
            "expectations": self.expectations,
            "executor": self,
            "recorder": self.recorder,
            "metrics": RuntimeMetrics(self.registry, version="").controller("widgets", 2),
            "queue_metrics": self.queue_metrics,
            "clock": self.clock,
            "wall": lambda: NOW + timedelta(seconds=self.seconds - 100.0),
        }
        kind: Any = SimpleNamespace(
            name="widgets",
            primary=WIDGETS,
            owned=(Owned(CONFIG_MAPS),),
            external_source=self.external,
            unready_reason=self.unready_reason,
            observe=self._observe,
            plan=self._plan,
            status_after=lambda *arguments: ("status after", *arguments),
        )
        self.controller: Controller[Any] = Controller(
            kind,
            workers=2,
            slow_reconciles=3,
            rng=self.rng,
            timeout=self.timeout,
            on_edit=lambda *edit: self.edits.append((*edit, len(self.planned))),
            **parts,
        )
        self.controller.queue = self.queue  # type: ignore[assignment]

    @property
    def owner_calls(self) -> list[tuple[Any, ...]]:
        return [call for call in self.expectations.calls if call[0].endswith("_owner")]

    def _get(self, resource: Any, key: str) -> Widget | None:
        assert (resource, key) == (WIDGETS, KEY)
        return self.primary

    def _observe(self, key: str, reader: Any) -> Any:
        assert (key, reader) == (KEY, self.reader)
        self.seconds += self.observing
        return None if self.primary is None else ("seen", self.primary)

    def _plan(self, observation: Any, now: Any) -> Plan:
        self.planned.append((observation, now))
        self.seconds += self.planning
        if isinstance(self.plan, Exception):
            raise self.plan
        return self.plan

    async def execute(self, execution: PlanExecution) -> PlanOutcome:
        self.executions.append(execution)
        await asyncio.sleep(self.executing)
        self.seconds += self.executing
        outcome = self.outcomes.pop(0) if self.outcomes else PlanOutcome(Result.DONE)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def forget_pruned_fields(self, uid: str) -> None:
        self.forgotten.append(uid)

    async def reconcile(self) -> dict[str, Any]:
        with capture_logs() as logs:
            await self.controller._process_key(KEY)
        self.logs = [line for line in logs if line["event"] != "reconcile"]
        (line,) = [line for line in logs if line["event"] == "reconcile"]
        return dict(line)

    def value(self, metric: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(metric, {"controller": "widgets", **labels})

    @property
    def results(self) -> dict[str, float]:
        results = ("success", "error", "requeue", "requeue_after")
        name = "controller_runtime_reconcile_total"
        values = {each: self.value(name, result=each) for each in results}
        return {each: value for each, value in values.items() if value}


async def test_the_line_of_a_reconcile_has_these_fields():
    bench = Bench(
        [PlanOutcome(Result.DONE, 7.00049, writes={"create": 2})],
        observing=0.010004,
        planning=0.020004,
        executing=0.5,
    )
    line = await bench.reconcile()
    assert line == {
        "reconcile_id": str(uuid.UUID(int=random.Random(1).getrandbits(128), version=4)),
        "event": "reconcile",
        "log_level": "info",
        "controller": "widgets",
        "kind": "Widget",
        "namespace": "default",
        "name": "f",
        "priority": -3,
        "observe_ms": 10.0,
        "plan_ms": 20.0,
        "execute_ms": 500.0,
        "result": "done",
        "writes": {"create": 2},
        "requeue_after": 7.0,
    }
    assert ("priority_of", KEY) in bench.queue.calls
    assert bench.value("manta_writes_total", verb="create") == 2
    seconds = bench.value("controller_runtime_reconcile_time_seconds_sum")
    assert seconds == pytest.approx(0.530008)
    assert bench.value("manta_plan_seconds_sum") == pytest.approx(0.030008)


async def test_times_are_logged_to_a_hundredth_of_a_millisecond():
    bench = Bench(observing=0.000014, planning=0.000024, executing=0.000034)
    line = await bench.reconcile()
    assert [line[name] for name in ("observe_ms", "plan_ms", "execute_ms")] == [0.01, 0.02, 0.03]
    bench.outcomes = [PlanOutcome(Result.DONE, 0.12345)]
    assert (await bench.reconcile())["requeue_after"] == 0.123


@pytest.mark.parametrize(
    ("outcome", "changes", "result"),
    [
        (PlanOutcome(Result.DONE), [("forget", KEY)], "success"),
        (
            PlanOutcome(Result.DONE, 7.0),
            [("forget", KEY), ("add_after", KEY, 7.0)],
            "requeue_after",
        ),
        (PlanOutcome(Result.MORE, 7.0), [("hold", KEY, 0.0), ("add", KEY)], "requeue"),
        (
            PlanOutcome(Result.AGAIN, 7.0, 2.0),
            [("add_rate_limited", KEY, 2.0), ("add_after", KEY, 7.0)],
            "requeue",
        ),
        (
            PlanOutcome(Result.WAIT, 7.0),
            [("add_rate_limited", KEY), ("add_after", KEY, 7.0)],
            "requeue",
        ),
        (PlanOutcome(Result.FAILED), [("add_rate_limited", KEY)], "error"),
        (
            PlanOutcome(Result.FAILED, 7.0, 4.0),
            [("add_rate_limited", KEY, 4.0), ("add_after", KEY, 7.0)],
            "error",
        ),
    ],
)
async def test_each_result_requeues_the_key_in_its_way(
    outcome: PlanOutcome, changes: list[Any], result: str
):
    bench = Bench([outcome])
    line = await bench.reconcile()
    assert bench.queue.changes == [HELD, *changes]
    assert bench.results == {result: 1}
    assert line["result"] == outcome.result.value
    failed = outcome.result is Result.FAILED
    assert bench.value("controller_runtime_reconcile_errors_total") == failed
    assert line["log_level"] == ("warning" if failed else "debug")


async def test_a_key_that_an_event_wakes_before_its_time_has_not_failed_once_more():
    outcome = PlanOutcome(Result.FAILED, retry_after=4.0)
    bench = Bench([outcome, replace(outcome, writes={"create": 1})])
    bench.queue.requeues = 3
    await bench.reconcile()
    assert bench.queue.changes == [HELD, ("add_after", KEY, 4.0)]
    await bench.reconcile()
    assert bench.queue.changes[-1] == ("add_rate_limited", KEY, 4.0)


async def test_a_key_that_has_more_to_do_waits_its_turn_if_others_wait():
    bench = Bench([PlanOutcome(Result.MORE)])
    bench.queue.waiting = 1
    await bench.reconcile()
    assert bench.queue.changes == [HELD, ("add", KEY)]


async def test_an_object_that_is_to_be_read_live_is_planned_then():
    bench = Bench([PlanOutcome(Result.DONE, 9.0, ask_after=7.0)])
    await bench.reconcile()
    assert bench.queue.changes[2:] == [
        ("add_after", KEY, 9.0),
        ("add_after", KEY, 7.0, {"retry": False}),
    ]


async def test_the_first_failure_of_a_plan_is_logged():
    failures = (Failure(create(), "Invalid", "too wide"), Failure(create("b"), "Forbidden", "no"))
    line = await Bench([PlanOutcome(Result.FAILED, failures=failures)]).reconcile()
    assert line["error"] == "Invalid: too wide"


async def test_the_external_source_gets_subscriptions_commands_and_the_end():
    external = Notes()
    bench = Bench(external=external)
    assert external.calls == [("start", bench.controller.enqueue)]
    await bench.reconcile()
    bench.executions[0].submit()
    bench.primary = None
    await bench.reconcile()
    assert external.calls[1:] == [
        ("sync", KEY, bench.plan.subscriptions),
        ("submit", KEY, bench.plan.commands),
        ("sync", KEY, ()),
    ]


async def test_everything_about_an_object_that_is_gone_is_forgotten():
    bench = Bench()
    await bench.reconcile()
    bench.primary = None
    bench.queue.calls.clear()
    line = await bench.reconcile()
    assert (line["result"], line["log_level"]) == ("gone", "debug")
    assert bench.owner_calls[1:] == [("remove_owner", "widgets", KEY)]
    assert bench.queue.changes == [("forget", KEY)]
    assert bench.results == {"success": 2}


async def test_an_object_that_is_gone_is_remembered_until_its_cache_shows_that():
    """Else it would be back at once, with nothing known of what was made for it."""
    bench = Bench()
    await bench.reconcile()
    bench.primary, bench.is_stored = None, True
    line = await bench.reconcile()
    assert line["result"] == "gone"
    assert bench.owner_calls == [("add_owner", OWNER)]
    assert (len(bench.executions), bench.results) == (1, {"success": 2})
    bench.is_stored = False
    await bench.reconcile()
    assert bench.owner_calls[1:] == [("remove_owner", "widgets", KEY)]


def test_the_line_of_a_cluster_scoped_object_has_no_namespace():
    with capture_logs() as logs:
        ReconcileLog("f", "id", 0).write("widgets", "Widget")
    assert (logs[0]["namespace"], logs[0]["name"]) == ("", "f")


async def test_fields_that_the_server_has_not_kept_are_asked_for_again_with_another_definition():
    bench = Bench()
    await bench.reconcile()
    bench.controller.reconsider([KEY, "default/a"])
    assert bench.forgotten == ["uid-f"]


async def test_an_object_that_was_made_anew_is_another_one():
    bench = Bench()
    await bench.reconcile()
    bench.primary = Widget(metadata=msgspec.structs.replace(META, uid="another"))
    await bench.reconcile()
    await bench.reconcile()
    another = replace(OWNER, uid="another")
    assert bench.owner_calls == [
        ("add_owner", OWNER),
        ("remove_owner", "widgets", KEY),
        ("add_owner", another),
        ("add_owner", another),
    ]


def ready(reason: str, message: str) -> dict[str, Any]:
    return {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": META.generation,
    }


def report(bench: Bench) -> PlanExecution:
    """The execution that reports an error; it does nothing else."""
    execution = bench.executions[-1]
    assert execution.failing
    assert (execution.owner, execution.resource) == (OWNER, WIDGETS)
    assert execution.primary is bench.primary
    assert execution.status_after(()) is None
    assert execution.wall() == NOW
    event = Event("Normal", "Made", "Create", "")
    execution.emit(event)
    recorded = ("record", WIDGETS, META, event, {"reporter": "widgets"})
    assert bench.recorder.calls.pop() == recorded
    assert execution.plan == Plan(status=execution.plan.status)
    return execution


async def test_an_exception_is_said_under_the_reason_of_another_api_if_that_has_its_own():
    outcomes = [KeyError("a"), PlanOutcome(Result.DONE, writes={"status": 1})]
    bench = Bench(outcomes, unready_reason="Initializing")
    bench.queue.requeues = 1
    await bench.reconcile()
    message = "ReconcileError: KeyError: 'a'"
    status = StatusPatch({"conditions": [ready("Initializing", message)]})
    assert report(bench).plan.status == status


async def test_children_that_a_finalizer_holds_are_told_also_with_an_error():
    found = child("a", terminating=True)
    metadata = msgspec.structs.replace(found.metadata, finalizers=("example.com/hold",))
    bench = Bench([KeyError("a")], children=[msgspec.structs.replace(found, metadata=metadata)])
    bench.queue.requeues = 2
    await bench.reconcile()
    told = [[str(each)[:11] for each in execution.held] for execution in bench.executions]
    assert told == [["ConfigMap a"], ["ConfigMap a"]]


async def test_an_error_that_cannot_be_reported_is_logged():
    bench = Bench([KeyError("a"), KeyError("b")])
    bench.queue.requeues = 1
    await bench.reconcile()
    assert bench.logs[1:] == [
        {
            "event": "error_condition.failed",
            "log_level": "warning",
            "name": KEY,
            "error": "'b'",
        }
    ]


async def test_an_error_that_cannot_even_be_told_is_logged(monkeypatch: pytest.MonkeyPatch):
    bench, second = Bench([KeyError("a")]), RecursionError("odd")

    def fail(*_arguments: Any, **_options: Any) -> None:
        raise second

    monkeypatch.setattr(bench.recorder, "record", fail, raising=False)
    await bench.reconcile()
    assert bench.logs[1:] == [
        {
            "event": "error_report.failed",
            "log_level": "error",
            "name": KEY,
            "exc_info": second,
        }
    ]


@pytest.mark.parametrize(("requeues", "said"), [(0, False), (1, True)])
async def test_a_read_that_keeps_failing_is_said_in_a_condition(requeues: int, *, said: bool):
    failed = PlanOutcome(Result.FAILED, error="cannot read ConfigMap a")
    bench = Bench([failed])
    bench.queue.requeues = requeues
    line = await bench.reconcile()
    assert line["error"] == "cannot read ConfigMap a"
    assert len(bench.executions) == 1 + said
    if said:
        status = StatusPatch({"conditions": [ready("FailedRead", "cannot read ConfigMap a")]})
        assert report(bench).plan.status == status


def of_generation(number: int, **metadata: Any) -> Widget:
    return msgspec.structs.replace(
        WIDGET, metadata=msgspec.structs.replace(META, generation=number, **metadata)
    )


async def test_another_object_of_the_name_is_no_edit():
    bench = Bench()
    for primary in (of_generation(3), of_generation(1, uid="another")):
        bench.primary = primary
        await bench.reconcile()
    bench.primary = None
    await bench.reconcile()
    bench.primary = of_generation(2)
    await bench.reconcile()
    assert bench.edits == []


@pytest.mark.parametrize(("observed", "edits"), [(2, []), (1, [(WIDGETS, KEY, 0)])])
async def test_the_status_tells_of_an_edit_before_the_start(observed: int, edits: list[Any]):
    bench = Bench()
    status: Any = {"observedGeneration": observed}
    bench.primary = msgspec.structs.replace(of_generation(2), status=status)
    await bench.reconcile()
    assert bench.edits == edits


async def test_what_a_plan_is_to_remember_is_kept_for_its_owner():
    memory: Any = object()
    bench = Bench(plan=Plan(memory=memory))
    await bench.reconcile()
    assert ("record", "uid-f") in bench.expectations.calls
    assert bench.record.calls == [("remember", memory)]


async def test_the_last_error_of_each_key_that_is_failing_is_kept():
    bench = Bench([RuntimeError("first"), PlanOutcome(Result.AGAIN), PlanOutcome(Result.DONE)])
    shown: list[dict[str, str]] = []
    for requeues in (0, 1, 0):
        bench.queue.requeues = requeues
        await bench.reconcile()
        shown.append(dict(bench.controller.errors))
    assert shown == [{KEY: "RuntimeError: first"}, {KEY: "again"}, {}]
