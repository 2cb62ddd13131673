"""The order in which a plan is carried out, and what is said about it afterwards."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.kube.errors import OutcomeUnknown, Status, error_for
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.execution import LookupReader, PlanExecution, PlanOutcome, Result
from controller.runtime.executor import Executor
from controller.runtime.kind import NAMESPACE_TERMINATING
from controller.runtime.plan import (
    Event,
    Failure,
    Lookup,
    MergePatch,
    PhaseDuration,
    Plan,
    StatusPatch,
    Target,
)
from controller.runtime.writer import Writer
from tests.runtime.kit import (
    OWNER,
    Book,
    Call,
    ScriptedClient,
    child,
    create,
    delete,
    status_error,
    target,
)
from tests.runtime.widgets import WIDGETS, Widget, WidgetStatus

WIDGET = Target(WIDGETS, "default", "f")
META = ObjectMeta(name="f", namespace="default", uid=OWNER.uid, resource_version="5")


@dataclass
class Bench:
    """An executor over a scripted client, and what came of it."""

    book: Book = field(default_factory=Book)
    client: ScriptedClient = field(default_factory=lambda: ScriptedClient(seconds=0.01))
    emitted: list[str] = field(default_factory=list)
    first_writes: list[int] = field(default_factory=list)
    phases: list[PhaseDuration] = field(default_factory=list)
    told: list[tuple[Failure, ...]] = field(default_factory=list)
    primary: Widget = field(default_factory=lambda: Widget(metadata=META))
    wait: float = 0.0

    def __post_init__(self) -> None:
        self.executor = Executor(
            Writer(self.client, self.book.expectations),
            LookupReader(self.client, self.book.expectations),
            self.book.expectations,
            now=lambda: self.book.time,
            rng=random.Random(0),
        )
        self.client.objects["f"] = KubeObject(metadata=META)

    async def execute(self, plan: Plan) -> PlanOutcome:
        self.book.time += self.wait
        outcome = await self._execute(plan)
        self.wait = outcome.retry_after or 0.0
        return outcome

    async def _execute(self, plan: Plan) -> PlanOutcome:
        return await self.executor.execute(
            PlanExecution(
                owner=OWNER,
                resource=WIDGETS,
                primary=self.primary,
                plan=plan,
                status_after=self._status_after,
                emit=lambda event: self.emitted.append(event.reason),
                first_write=lambda: self.first_writes.append(len(self.client.calls)),
                measure=self.phases.append,
                wall=lambda: datetime(2026, 1, 1, tzinfo=UTC),
            )
        )

    def _status_after(self, failures: tuple[Failure, ...]) -> StatusPatch:
        self.told.append(failures)
        return StatusPatch({"children": -1})

    def fail(self, verb: str, error: Exception, *, name: str = "") -> None:
        def script(call: Call) -> Any:
            if call.verb == verb and name in {"", call.name}:
                raise error
            return self.client.serve(call)

        self.client.script = script

    @property
    def order(self) -> list[str]:
        return [f"{call.verb} {call.name}" for call in self.client.calls]


COMMIT = MergePatch(WIDGET, OWNER.uid, {"metadata": {"annotations": {"k": "v"}}})


async def test_commit_stages_status_in_this_order():
    bench = Bench()
    bench.book.show(child("old", 2))
    bench.client.objects["old"] = child("old", 2)
    plan = Plan(
        commit=COMMIT,
        stages=((create("a"), create("b"), delete("old")), (create("c"),)),
        status=StatusPatch({"children": 3}),
        events=(Event("Normal", "Planned", "Reconcile", ""),),
    )
    outcome = await bench.execute(plan)
    assert outcome.result is Result.DONE
    assert bench.order == [
        "patch f", "delete old", "create a", "create b", "create c", "patch/status f"
    ]  # fmt: skip
    assert outcome.writes == {"patch": 1, "delete": 1, "create": 3, "status": 1}
    assert bench.emitted == ["Planned"]


@pytest.mark.parametrize(
    ("verb", "plan"),
    [
        ("patch", Plan(commit=COMMIT)),
        ("patch/status", Plan(status=StatusPatch({"children": 3}, urgent=True))),
    ],
)
async def test_an_object_that_cannot_be_written_is_reported_once_by_an_event(verb: str, plan: Plan):
    bench = Bench()
    for text in ("no right, request 101", "no right, request 102"):
        bench.fail(verb, status_error(403, "Forbidden", message=text))
        await bench.execute(plan)
    assert bench.emitted == ["FailedUpdate"]
    bench.fail(verb, status_error(403, "Forbidden", message="a policy forbids it"))
    await bench.execute(plan)
    assert bench.emitted == ["FailedUpdate"] * 2


async def test_a_status_that_another_writer_changes_back_is_written_with_back_off():
    bench, written = Bench(), list[float]()
    bench.client.objects["f"] = Widget(metadata=META, status={"children": 3})
    for second in range(60):
        bench.book.time = float(second)
        bench.primary = Widget(metadata=META)
        calls = len(bench.client.calls)
        await bench.execute(Plan(status=StatusPatch({"children": 3}, urgent=True)))
        if "patch/status f" in bench.order[calls:]:
            written.append(bench.book.time)
    assert written == [0, 1, 3, 7, 15, 31]


async def test_lookups_are_answered_first_and_nothing_else_is_done():
    bench = Bench()
    plan = Plan(lookups=(Lookup(target("a")), Lookup(target("b"))), stages=((create("c"),),))
    bench.client.objects["a"] = child("a", 50)
    outcome = await bench.execute(plan)
    assert outcome.result is Result.MORE
    assert sorted(bench.order) == ["get a", "get b"]
    reads = bench.book.expectations.reader
    assert not reads.record(OWNER.uid).looked_up_absent(CONFIG_MAPS, "default/a")
    assert reads.record(OWNER.uid).looked_up_absent(CONFIG_MAPS, "default/b")
    assert bench.book.names() == ["a"]


async def test_a_lookup_without_an_answer_is_tried_again_with_back_off():
    bench = Bench()
    bench.fail("get", OutcomeUnknown("reset"))
    outcome = await bench.execute(Plan(lookups=(Lookup(target("a")),)))
    assert outcome.result is Result.FAILED
    assert bench.emitted == ["FailedRead"]
    assert not bench.book.expectations.reader.record(OWNER.uid).looked_up_absent(
        CONFIG_MAPS, "default/a"
    )


@pytest.mark.parametrize(
    ("error", "next_", "status"),
    [
        (status_error(409, "Conflict"), Result.AGAIN, False),
        (OutcomeUnknown("reset"), Result.WAIT, False),
        (status_error(403, "Forbidden"), Result.FAILED, True),
        (error_for(Status(429, "TooManyRequests"), retry_after=1.0), Result.AGAIN, False),
    ],
    ids=["conflict", "unknown", "refused", "busy for a moment"],
)
async def test_without_its_commit_nothing_is_done(error: Exception, next_: Result, status: bool):
    bench = Bench()
    bench.fail("patch", error)
    bench.client.objects["b"] = child("b", 2)
    stages = ((create("a"), delete("b")),)
    plan = Plan(commit=COMMIT, stages=stages, status=StatusPatch({"children": 1}))
    outcome = await bench.execute(plan)
    assert outcome.result is next_
    assert {"create a", "delete b"}.isdisjoint(bench.order)
    assert ("patch/status f" in bench.order) is status, "a refusal is said on the object"


async def test_a_failed_stage_stops_the_next_and_the_status_names_the_first_cause():
    bench = Bench()
    bench.fail("create", status_error(422, "Invalid", message="too wide"), name="a")
    bench.client.objects["c"] = child("c", 2)
    stages = ((create("a"),), (create("b"), delete("c")))
    plan = Plan(stages=stages, status=StatusPatch({"children": 2}))
    outcome = await bench.execute(plan)
    assert outcome.result is Result.FAILED
    assert bench.order == ["create a", "patch/status f"]
    (failures,) = bench.told
    assert [(f.reason, f.message) for f in failures] == [("Invalid", "too wide")]
    assert bench.client.calls[-1].body["status"] == {"children": -1}


async def test_what_is_aside_neither_waits_for_stages_nor_stops_them():
    bench = Bench()
    bench.fail("create", status_error(422, "Invalid"), name="a")
    plan = Plan(stages=((create("a"),), (create("b"),)), independent=(create("c"), create("d")))
    outcome = await bench.execute(plan)
    assert outcome.result is Result.FAILED
    assert sorted(bench.order[:3]) == ["create a", "create c", "create d"]
    bench = Bench()
    bench.fail("create", status_error(422, "Invalid"), name="c")
    outcome = await bench.execute(plan)
    assert outcome.result is Result.FAILED
    assert bench.order[:2] == ["create a", "create b"]
    assert [failure.write for failure in outcome.failures] == [create("c")]


async def test_a_secret_part_is_made_for_each_request_and_kept_nowhere():
    bench = Bench()
    tokens = iter(["token-1", "token-2"])
    write = replace(create("a"), secret=lambda: {"stringData": {"token": next(tokens)}})
    bench.fail("create", OutcomeUnknown("reset"))
    await bench.execute(Plan(stages=((write,),)))
    bench.client.script = None
    await bench.execute(Plan(stages=((write,),)))
    created = [call.body for call in bench.client.calls if call.verb == "create"]
    assert [body["stringData"]["token"] for body in created] == ["token-1", "token-2"]
    entry = bench.book.expectations.get(bench.book.reference("a"))
    assert entry is not None
    assert "token-1" not in repr(entry)
    assert "token-2" not in repr(entry)


async def test_a_deleted_owner_hears_at_once_that_its_namespace_takes_nothing_more():
    refused = status_error(403, "Forbidden", cause=NAMESPACE_TERMINATING)
    living, going = Bench(), Bench()
    going.primary = Widget(metadata=msgspec.structs.replace(META, deletion_timestamp="2026"))
    for bench in (living, going):
        bench.fail("create", refused)
    plan = Plan(stages=((create("a"),),))
    assert (await living.execute(plan)).result is Result.DONE
    assert (await going.execute(plan)).result is Result.AGAIN


async def test_a_failed_lookup_does_not_put_off_a_deadline():
    bench = Bench()
    bench.fail("get", status_error(403, "Forbidden"))
    outcome = await bench.execute(Plan(lookups=(Lookup(target("a")),), requeue_after=7.0))
    assert (outcome.result, outcome.requeue_after) == (Result.FAILED, 7.0)


async def test_only_what_differs_is_written_and_a_list_needs_the_revision():
    bench = Bench(primary=Widget(metadata=META, status=WidgetStatus(children=3)))
    await bench.execute(Plan(status=StatusPatch({"children": 4})))
    assert bench.client.calls[-1].body == {
        "metadata": {"uid": OWNER.uid},
        "status": {"children": 4},
    }
    await bench.execute(
        Plan(status=StatusPatch({"children": 3, "conditions": [{"type": "Ready"}]}))
    )
    assert bench.client.calls[-1].body == {
        "metadata": {"uid": OWNER.uid, "resourceVersion": "5"},
        "status": {"conditions": [{"type": "Ready"}]},
    }


async def test_what_the_server_does_not_keep_of_a_status_is_asked_for_once():
    told = Event("Normal", "Ready", "Reconcile", "")
    bench = Bench()
    pruned = Widget(metadata=META, status=WidgetStatus(children=4))
    bench.client.objects["f"] = pruned
    status = StatusPatch({"children": 4, "conditions": [{"type": "Ready"}]}, events=(told,))
    await bench.execute(Plan(status=status))
    bench.primary = pruned
    assert (await bench.execute(Plan(status=status))).writes == {}
    assert bench.emitted == ["Ready"]
    other = StatusPatch({"children": 4, "conditions": [{"type": "Suspended"}]})
    assert (await bench.execute(Plan(status=other))).writes == {"status": 1}, "another value"
    bench.book.gone()
    bench.book.owned_by(OWNER)
    assert (await bench.execute(Plan(status=other))).writes == {"status": 1}, "another object"


async def test_a_pruned_field_is_not_written_again_because_a_time_in_it_has_passed():
    bench = Bench()
    pruned = Widget(metadata=META, status=WidgetStatus(children=4))
    bench.client.objects["f"] = pruned
    for second in range(3):
        now = f"2026-08-20T10:00:0{second}Z"
        conditions = [{"type": "Ready", "lastTransitionTime": now}]
        await bench.execute(Plan(status=StatusPatch({"children": 4, "conditions": conditions})))
        bench.primary = pruned
    assert bench.order == ["patch/status f"]


async def test_a_stamp_is_written_with_a_change_and_never_alone():
    bench = Bench()
    await bench.execute(Plan(status=StatusPatch({"children": 3}, stamps={"updated": "now"})))
    assert bench.client.calls[-1].body["status"] == {"children": 3, "updated": "now"}
    bench.primary = Widget(metadata=META, status=WidgetStatus(children=3))
    later = StatusPatch({"children": 3}, stamps={"updated": "later"})
    assert (await bench.execute(Plan(status=later))).writes == {}


# -- single writes --------------------------------------------------------------------------------


async def test_events_of_a_status_are_recorded_with_the_write_that_stores_it():
    ready = Event("Normal", "Ready", "Reconcile", "")
    bench = Bench()
    bench.client.objects["f"] = Widget(metadata=META, status={"children": 4})
    status = StatusPatch({"children": 4}, events=(ready,))
    await bench.execute(Plan(status=status))
    assert bench.emitted == ["Ready"]
    bench.primary = Widget(metadata=META, status={"children": 4})
    await bench.execute(Plan(status=status))
    assert bench.emitted == ["Ready"], "nothing was written"
    bench.primary = Widget(metadata=META)
    for error, told in (
        (status_error(409, "Conflict"), 1),
        (OutcomeUnknown("reset"), 2),
        (status_error(403, "Forbidden"), 3),
    ):
        bench.book.time += 3600.0
        bench.fail("patch/status", error)
        await bench.execute(Plan(status=status))
        assert bench.emitted.count("Ready") == told, error


async def test_a_status_that_changes_with_time_wakes_its_key():
    bench = Bench()
    status = StatusPatch({"children": 3}, valid_for=40.0)
    assert (await bench.execute(Plan(status=status))).requeue_after == 40.0
    assert (await bench.execute(Plan(status=status, requeue_after=7.0))).requeue_after == 7.0
    assert (await bench.execute(Plan(status=status, requeue_after=70.0))).requeue_after == 40.0


def batch(first: int, count: int) -> Plan:
    return Plan(stages=(tuple(create(f"b{n}") for n in range(first, first + count)),))


async def test_a_batch_goes_on_at_the_speed_that_the_last_one_came_to():
    bench = Bench()
    loop = asyncio.get_running_loop()
    took: list[float] = []
    for first, count, next_ in (
        (0, 200, Result.MORE),
        (64, 200, Result.MORE),
        (128, 64, Result.DONE),
    ):
        began = loop.time()
        assert (await bench.execute(batch(first, count))).result is next_
        took.append(round((loop.time() - began) / bench.client.seconds))
    assert took == [7, 1, 1], "1, 2, 4, ..., 32 and the last; then 64 at once from the beginning"


async def test_a_batch_that_is_refused_costs_one_call_when_it_is_tried_again():
    bench = Bench()
    await bench.execute(batch(0, 200))
    bench.fail("create", status_error(403, "Forbidden"))
    for calls in (64, 1, 1):
        outcome = await bench.execute(batch(64, 200))
        assert outcome.result is Result.FAILED
        assert outcome.writes["create"] == calls


async def test_a_refusal_stops_the_creates_of_its_scope_and_no_others():
    bench = Bench()

    def invalid(call: Call) -> Any:
        if call.name.startswith("bad"):
            raise status_error(422, "Invalid")
        return bench.client.serve(call)

    bench.client.script = invalid
    refused = [replace(create(f"bad{n}"), target=target(f"bad{n}", "bad")) for n in range(8)]
    outcome = await bench.execute(Plan(stages=((*refused, *batch(0, 8).stages[0]), (create("c"),))))
    assert outcome.result is Result.FAILED
    assert outcome.writes["create"] == 1 + 8, "and no later stage begins"


async def test_the_first_write_is_measured_once_before_it_is_sent():
    bench = Bench()
    await bench.execute(Plan(stages=((create("a"), create("b")), (create("c"),))))
    assert bench.first_writes == [0]
    await bench.execute(Plan(status=StatusPatch({"children": 3})))
    assert bench.first_writes == [0, 3]


PHASE = PhaseDuration("pods_ready", 3.0)


async def test_a_phase_is_measured_once_its_transition_is_stored():
    bench = Bench()
    status = StatusPatch({"children": 3}, phases=(PHASE,))
    bench.fail("patch/status", OutcomeUnknown("lost"))
    await bench.execute(Plan(status=status))
    assert bench.phases == []
    bench.client.script = bench.client.serve
    await bench.execute(Plan(status=status))
    assert bench.phases == [PHASE]
