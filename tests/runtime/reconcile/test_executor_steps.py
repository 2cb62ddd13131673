"""The execution of a plan, step by step: what is written, said and remembered for the next one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.kube.errors import KubeError, OutcomeUnknown
from controller.kube.objects import ObjectMeta
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.execution import (
    PlanExecution,
    PlanOutcome,
    Result,
)
from controller.runtime.executor import FAILED_UPDATE, Executor
from controller.runtime.expectation import ObjectReference, Questions
from controller.runtime.failed_groups import FailedGroups, WriteOutcome, WriteResult
from controller.runtime.plan import (
    NOTHING,
    Event,
    Failure,
    Lookup,
    MergePatch,
    Plan,
    StatusPatch,
    Target,
    Write,
    subresource_of,
)
from controller.runtime.record import Record
from controller.runtime.repairs import CONTESTED_FIELDS, FORGOTTEN_AFTER
from controller.runtime.status import MESSAGE_INTERVAL, HeldChild
from tests.runtime.kit import NOW, OWNER, child, create, delete, patch, status_error, target
from tests.runtime.widgets import WIDGETS, Widget, WidgetStatus

META = ObjectMeta(name="f", namespace="default", uid=OWNER.uid, resource_version="5", generation=7)
WIDGET = Target(WIDGETS, "default", "f")
COMMIT = MergePatch(WIDGET, OWNER.uid, {"metadata": {"annotations": {"k": "v"}}})
REFUSED = status_error(403, "Forbidden", message="no right")
STATUS = StatusPatch({"children": 3})
READY = {"type": "Ready", "status": "True", "reason": "Counted", "message": ""}


@dataclass
class Bench:
    """An executor whose writer answers as the test says, by the name of what is written.

    `outcomes` has a `WriteOutcome` or an error for each name; all other writes succeed. The
    present object has `status`; a write of it returns `stored`. The answer to what is `silent` is
    late, and comes once `hold` is set, if there is one.
    """

    outcomes: dict[str, Any] = field(default_factory=dict[str, Any])
    status: Any = field(default_factory=WidgetStatus)
    stored: Widget | None = None
    now: float = 0.0
    wait: float = 0.0
    generation: int = 7
    failing: bool = False
    overdue: tuple[Failure, ...] = ()
    after: StatusPatch | None = None
    repeated: frozenset[str] = frozenset()
    disowned: frozenset[str] = frozenset()
    held: tuple[HeldChild, ...] = ()
    deleted: bool = False
    silent: frozenset[str] = frozenset()
    hold: asyncio.Event | None = None
    unreadable: dict[str, KubeError] = field(default_factory=dict[str, KubeError])
    left: Questions = field(default_factory=Questions)
    read: list[str] = field(default_factory=list[str])
    sent: list[Write] = field(default_factory=list[Any])
    emitted: list[Event] = field(default_factory=list[Event])
    told: list[tuple[Failure, ...]] = field(default_factory=list[Any])
    asked: list[str] = field(default_factory=list[str])
    submitted: int = 0
    kept: Record = field(init=False)

    def __post_init__(self) -> None:
        double: Any = self
        self.forget()
        self.executor = Executor(double, double, double, now=lambda: self.now, rng=random.Random(0))

    def forget(self) -> None:
        """Drop what earlier executions have left, as a new process does."""
        self.kept = BenchRecord(self)

    async def execute(self, plan: Plan) -> PlanOutcome:
        self.now += self.wait
        outcome = await self.execute_at_once(plan)
        self.wait = outcome.retry_after or 0.0
        return outcome

    async def execute_at_once(self, plan: Plan) -> PlanOutcome:
        self.sent.clear()
        self.emitted.clear()
        deleted = rfc3339(NOW) if self.deleted else None
        metadata = msgspec.structs.replace(
            META, generation=self.generation, deletion_timestamp=deleted
        )
        return await self.executor.execute(
            PlanExecution(
                owner=OWNER,
                resource=WIDGETS,
                primary=Widget(metadata=metadata, status=self.status),
                plan=plan,
                status_after=self._status_after,
                emit=self.emitted.append,
                wall=lambda: NOW + timedelta(seconds=self.now),
                submit=self._submit,
                failing=self.failing,
                held=self.held,
            )
        )

    async def perform(
        self,
        owner: Any,
        write: Write,
        *,
        on_silence: Callable[[Failure], None],
        repetition: bool = False,
    ) -> WriteResult:
        assert owner is OWNER
        assert repetition == (write in self.left.repeats)
        self.sent.append(write)
        if write.target.name in self.silent:
            on_silence(unanswered(write))
            await (asyncio.sleep(1) if self.hold is None else self.hold.wait())
        answer = self.outcomes.get(write.target.name, WriteOutcome.DONE)
        if isinstance(answer, OutcomeUnknown):
            return WriteResult(write, WriteOutcome.UNKNOWN, error=answer)
        if isinstance(answer, KubeError):
            return WriteResult(write, WriteOutcome.FAILED, error=answer)
        if answer is WriteOutcome.DONE and write.target.resource is WIDGETS:
            return WriteResult(write, answer, self.stored)
        return WriteResult(write, answer, error=None if answer is WriteOutcome.DONE else REFUSED)

    def record(self, uid: str) -> Any:
        assert uid == OWNER.uid
        return self.kept

    async def ask(self, owner: Any, reference: ObjectReference) -> bool:
        assert owner is OWNER
        self.read.append(reference.name)
        answered = reference.name not in self.unreadable
        if answered:
            reads = tuple(each for each in self.left.reads if each != reference)
            repeats = tuple(
                each for each in self.left.repeats if each.target.name != reference.name
            )
            self.left = replace(self.left, reads=reads, repeats=repeats)
        return answered

    async def look_up(self, owner: Any, lookup: Lookup) -> KubeError | None:
        assert owner is OWNER
        return self.unreadable.get(lookup.target.name)

    async def other_writers(self, target: Target, paths: list[Any]) -> list[str]:
        self.asked.append(target.name)
        return [f"another writer of {target.name} {'.'.join(path)}" for path in paths]

    def _status_after(self, failures: tuple[Failure, ...]) -> StatusPatch | None:
        self.told.append(failures)
        return self.after

    def _submit(self) -> None:
        self.submitted += 1

    @property
    def names(self) -> list[str]:
        return [write.target.name for write in self.sent]


class BenchRecord(Record):
    """A record of which the bench says what was written and is to be found out."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(OWNER)
        self._bench = bench

    def is_repetition(self, write: Write) -> bool:
        return write.target.name in self._bench.repeated

    def is_disowned(self, write: Write) -> bool:
        return write.target.name in self._bench.disowned

    def questions(self, now: float) -> Questions:
        assert now == self._bench.now
        return self._bench.left

    def overdue_failures(self, now: float) -> tuple[Failure, ...]:
        assert now == self._bench.now
        return self._bench.overdue


def unanswered(write: Write) -> Failure:
    return Failure(write, "OutcomeUnknown", "no answer", unknown=True, overdue=True)


def failure(write: Write, **options: Any) -> Failure:
    return Failure(write, "Forbidden", "no right", **options)


async def test_nothing_follows_an_object_that_is_not_created_yet_because_others_delete_it():
    bench = Bench()
    plan = Plan(
        stages=((create("a"), patch("b", colour="red")), (create("c"),)),
        independent=(patch("d", colour="red"),),
    )
    for names in (["b", "a", "c", "d"], ["a", "c"]):
        await bench.execute(plan)
        assert bench.names == names
    bench.now = 0.5
    outcome = await bench.execute(plan)
    assert (bench.names, outcome.result, outcome.requeue_after) == ([], Result.DONE, 0.5)
    bench.now = 1.0
    await bench.execute(Plan(stages=plan.stages))
    assert bench.names == ["b", "a", "c"]


async def test_who_keeps_deleting_an_object_is_reported_also_while_it_is_created():
    bench = Bench(after=STATUS)
    for at in (0.0, 1.0, 2.0, 4.0, 6.0, 8.0):
        bench.now = at
        outcome = await bench.execute(Plan(stages=((create(),),)))
        assert ("a" in bench.names) is (at != 6.0), "then it waits"
        assert [each.reason for each in outcome.failures] == ["DeletedAgain"] * (at >= 4.0)
        assert outcome.result is Result.DONE, "it is no failure of the server's"
    assert [each.reason for (each,) in bench.told] == ["DeletedAgain"] * 3


async def test_the_event_that_names_who_keeps_deleting_an_object_is_about_its_creation():
    bench = Bench()
    for at in (0.0, 1.0, 2.0, 4.0):
        bench.now = at
        await bench.execute(Plan(stages=((create(),),)))
    (event,) = bench.emitted
    assert (event.reason, event.action) == ("FieldContested", "Create")


FIRST, SECOND = patch("first"), patch("second")


async def test_from_the_third_repair_on_the_other_writer_is_named_by_an_event_and_a_condition():
    bench = Bench()
    plan = Plan(stages=((patch("a", colour="red"),),), status=StatusPatch({"conditions": [READY]}))
    sentence = (
        "another writer of a data.colour keeps changing data.colour of ConfigMap a; it is repaired "
        "at most once a minute: configure or stop one of the two writers"
    )
    for at in (0.0, 1.0, 3.0):
        bench.now = at
        outcome = await bench.execute(plan)
    (event,) = bench.emitted
    assert event == Event(
        "Warning", "FieldContested", "Update", sentence, aggregate_note=CONTESTED_FIELDS
    )
    status = bench.sent[-1].patch["status"]  # type: ignore[union-attr]
    assert status["conditions"][1]["message"] == sentence
    assert status["conditions"][1]["observedGeneration"] == 7
    assert status["conditions"][1]["lastTransitionTime"] == "2026-01-01T00:00:03Z"
    assert outcome.requeue_after == FORGOTTEN_AFTER, "so that the condition goes"
    bench.now = 4.0
    outcome = await bench.execute(Plan(stages=plan.stages))
    assert outcome.requeue_after == 3.0
    (said,) = bench.sent
    assert subresource_of(said) == "status", "a plan without a status of its own says it, too"
    assert [each["message"] for each in said.patch["status"]["conditions"]] == [sentence]  # type: ignore[union-attr]
    bench.forget()
    await bench.execute(Plan(stages=plan.stages))
    assert bench.names == ["a"]


async def test_one_read_and_one_event_tell_of_all_fields_that_others_change_back():
    bench = Bench()
    plan = Plan(stages=((patch("a", shape="round", colour="red"), patch("b", colour="red")),))
    for at in (0.0, 1.0, 3.0):
        bench.now = at
        await bench.execute(plan)
    assert bench.asked == ["a", "b"]
    assert [event.note.count("keeps changing data.") for event in bench.emitted] == [3]


async def test_what_the_garbage_collector_deletes_for_its_owner_is_named_before_it_is_made_again():
    bench = Bench(disowned=frozenset("a"))
    plan = Plan(stages=((create("a"),),), status=StatusPatch({"conditions": []}))
    await bench.execute(plan)
    assert bench.names == ["a"]
    bench.now = 1.0
    outcome = await bench.execute(plan)
    assert "a" not in bench.names
    (told,) = bench.told[-1]
    assert "changes the owner reference of ConfigMap a, so that the garbage" in told.message
    assert outcome.requeue_after == 59.0


async def test_no_object_has_its_turn_before_it_is_seen_that_the_repair_of_the_last_is_undone():
    bench = Bench()
    plan = Plan(stages=((patch("a", colour="red"), patch("b", colour="red")),))
    sent: dict[float, list[str]] = {}
    for at in (0.0, 1.0, 3.0, 8.0, 19.0, 24.0, 46.0):
        bench.now = at
        await bench.execute(plan)
        sent[at] = bench.names
    assert [sent[at] for at in (8.0, 19.0, 24.0, 46.0)] == [["a"], ["b"], [], ["a"]]


async def test_a_plan_that_writes_nothing_has_a_held_child_told_once_and_never_written():
    found = child("a", terminating=True)
    bench = Bench(held=(HeldChild(CONFIG_MAPS, found, ["example.com/hold"]),), now=120.0)
    await bench.execute(Plan())
    assert bench.sent == []
    assert [event.reason for event in bench.emitted] == ["ChildHeld"]
    await bench.execute(Plan())
    assert (bench.sent, bench.emitted) == ([], [])
    bench.held = ()
    await bench.execute(Plan())
    bench.held = (HeldChild(CONFIG_MAPS, found, ["example.com/hold"]),)
    await bench.execute(Plan())
    assert [event.reason for event in bench.emitted] == ["ChildHeld"], "it is held anew"
    bench.forget()
    await bench.execute(Plan())
    assert [event.reason for event in bench.emitted] == ["ChildHeld"]


async def test_an_object_that_is_deleted_names_a_child_that_is_held_once_it_takes_long():
    found = child("a", terminating=True)
    bench = Bench(
        held=(HeldChild(CONFIG_MAPS, found, ["example.com/hold"]),), now=100.0, deleted=True
    )
    outcome = await bench.execute(Plan())
    assert outcome.requeue_after == 20.0
    assert bench.sent == []
    bench.now = 120.0
    await bench.execute(Plan())
    (said,) = bench.sent
    (condition,) = said.patch["status"]["conditions"]  # type: ignore[union-attr]
    assert condition["type"] == "ChildHeld"
    assert "example.com/hold" in condition["message"]
    assert [event.reason for event in bench.emitted] == ["ChildHeld"]


def refused_for(number: str) -> StatusPatch:
    message = f"refused for the reason {number}"
    return StatusPatch({"conditions": [{**READY, "status": "False", "message": message}]})


@pytest.mark.parametrize("failing", ["the plan", "a write", "an earlier write"])
@pytest.mark.parametrize(("passed", "written"), [(MESSAGE_INTERVAL - 1, 0), (MESSAGE_INTERVAL, 1)])
async def test_a_failing_object_changes_its_messages_seldom(
    failing: str, passed: float, written: int
):
    bench = Bench(failing=failing == "the plan")
    plan = Plan(status=refused_for("one"), requeue_after=7.0)
    if failing == "a write":
        bench.outcomes["a"] = REFUSED
        plan = replace(plan, stages=((patch("a"),),))
    if failing == "an earlier write":
        bench.overdue = (failure(patch("a"), unknown=True, overdue=True),)
    bench.after = refused_for("one")
    await bench.execute(plan)
    bench.status = refused_for("one").wanted
    bench.now, bench.after = passed, refused_for("two")
    outcome = await bench.execute_at_once(replace(plan, status=refused_for("two")))
    assert [write.target.name for write in bench.sent].count("f") == written
    assert outcome.requeue_after == 7.0


async def test_the_message_of_a_failing_object_stays_if_only_numbers_in_it_change():
    bench = Bench(failing=True, status=refused_for("101").wanted, now=1e6)
    await bench.execute(Plan(status=refused_for("102")))
    assert bench.sent == []
    bench.failing = False
    await bench.execute(Plan(status=refused_for("102")))
    assert len(bench.sent) == 1


async def test_writes_without_an_answer_are_named_once_while_they_are_in_flight():
    bench = Bench(silent=frozenset("ab"), after=refused_for("no answer"))
    await bench.execute(Plan(stages=((patch("a"), patch("b"), patch("c")),), status=STATUS))
    assert bench.told == [(unanswered(patch("a")), unanswered(patch("b")))]
    assert bench.names == ["a", "b", "c", "f", "f"]
    *_, named, last = bench.sent
    assert isinstance(named, MergePatch)
    assert named.patch["status"] == refused_for("no answer").wanted
    assert isinstance(last, MergePatch)
    assert last.patch["status"] == STATUS.wanted


async def test_the_object_itself_without_an_answer_is_named_by_an_event():
    bench = Bench(silent=frozenset("f"), after=STATUS)
    await bench.execute(Plan(commit=COMMIT, status=STATUS))
    notes = [event.note for event in bench.emitted if event.reason == FAILED_UPDATE]
    assert [note.partition(" of ")[0] for note in notes] == [
        "cannot write the metadata",
        "cannot write the status",
    ]
    assert bench.told == []


@pytest.mark.parametrize("other", [target("f"), replace(WIDGET, name="g")])
async def test_an_object_that_shares_a_name_or_a_kind_with_it_is_named_in_the_status(other: Target):
    write = MergePatch(other, "uid-other", {"data": {}})
    bench = Bench(silent=frozenset("fg"), after=STATUS)
    await bench.execute(Plan(stages=((write,),)))
    assert bench.told[0] == (unanswered(write),)


def reports_of_silence() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "silence"]


async def test_the_report_of_a_silence_ends_before_the_execution():
    bench = Bench(silent=frozenset("af"), after=refused_for("no answer"))
    outcome = await bench.execute(Plan(stages=((patch("a"),),)))
    assert reports_of_silence() == []
    assert outcome.writes == {"patch": 1, "status": 1}


async def test_the_report_of_a_silence_is_cut_off_with_the_execution():
    bench = Bench(silent=frozenset("af"), after=STATUS, hold=asyncio.Event())
    task = asyncio.create_task(bench.execute(Plan(stages=((patch("a"),),))))
    await asyncio.sleep(1)
    assert reports_of_silence()
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert reports_of_silence() == []


async def test_changes_that_stay_unknown_take_turns():
    lost = OutcomeUnknown("reset")
    bench, plan = Bench({"a": lost, "b": lost}), Plan(stages=((patch("a"), patch("b")),))
    await bench.execute(plan)
    for turn in ("a", "b", "a"):
        await bench.execute(plan)
        assert bench.names == [turn]
    bench.outcomes.clear()
    await bench.execute(plan)
    assert bench.names == ["b", "a"]


async def test_a_deletion_that_is_sent_again_anyway_is_not_sent_twice_and_what_follows_waits():
    bench = Bench(repeated=frozenset({"a"}), left=Questions(repeats=(delete("a"),)))
    outcome = await bench.execute(Plan(stages=((delete("a"),), (patch("b"),))))
    assert (outcome.result, bench.names) == (Result.WAIT, ["a"])


async def test_sixty_lost_answers_cost_one_request_an_attempt_until_one_arrives():
    lost = OutcomeUnknown("reset")
    writes = tuple(create(f"w{number}") for number in range(60))
    bench = Bench({write.target.name: lost for write in writes}, left=Questions(repeats=writes))
    failed = FailedGroups(7, random.Random(0))
    bench.kept.failed_groups = failed
    failed.ended(WriteResult(writes[0], WriteOutcome.UNKNOWN, error=lost), 0.0)
    for _ in range(5):
        outcome = await bench.execute(NOTHING)
        assert len(bench.sent) == 1
        assert (outcome.result, outcome.failures) == (Result.WAIT, ())
        await bench.execute_at_once(NOTHING)
        assert bench.sent == [], "an event sends none before its time"
    assert 16 <= bench.wait < 20
    bench.outcomes.clear()
    assert (await bench.execute(NOTHING)).result is Result.MORE
    assert len(bench.sent) == 60, "one first, then more and more"


async def test_what_is_refused_as_a_repetition_is_read_and_then_planned_anew():
    bench = Bench({"a": REFUSED}, left=Questions(repeats=(create("a"),)))
    outcome = await bench.execute(NOTHING)
    assert (bench.names, bench.read) == (["a"], ["a"])
    assert (outcome.result, outcome.retry_after) == (Result.MORE, 0.0)


async def test_reads_that_fail_cost_one_request_an_attempt():
    references = tuple(ObjectReference(CONFIG_MAPS, f"default/{name}") for name in "abc")
    bench = Bench(left=Questions(reads=references), unreadable={"a": REFUSED})
    for number in range(1, 5):
        outcome = await bench.execute(NOTHING)
        await bench.execute_at_once(NOTHING)
        assert bench.read == ["a"] * number
        assert (outcome.result, outcome.ask_after) == (Result.WAIT, None)
    assert 8 <= bench.wait < 10


async def test_the_first_name_of_a_failure_does_not_wait_for_the_interval_of_messages():
    bench = Bench()
    await bench.execute(Plan(status=refused_for("one")))
    bench.status = refused_for("one").wanted
    bench.outcomes["a"] = OutcomeUnknown("reset")
    plan = Plan(stages=((patch("a"),),))
    overdue = failure(patch("a"), unknown=True, overdue=True)
    written: list[bool] = []
    for number, failures in enumerate([(), (), (overdue,), (overdue,)]):
        bench.now, bench.overdue = 10.0 * number, failures
        bench.after = refused_for(f"text {number}")
        await bench.execute(plan)
        written.append("f" in bench.names)
    assert written == [True, True, True, False]


async def test_warnings_about_a_failing_object_are_alike_whatever_the_server_says():
    warning, other = Event("Warning", "W", "Update", "no"), Event("Normal", "N", "Update", "yes")
    told = replace(STATUS, events=(warning, other))
    bench = Bench({"a": REFUSED}, after=told)
    await bench.execute(Plan(stages=((patch("a"),),)))
    assert bench.emitted == [replace(warning, quotes=True), other]
    bench = Bench()
    await bench.execute(Plan(status=told))
    assert bench.emitted == [warning, other]


@pytest.mark.parametrize("answer", [REFUSED, OutcomeUnknown("reset"), WriteOutcome.CONFLICT])
async def test_a_status_that_fails_beside_other_writes_takes_turns_with_them(answer: Any):
    bench = Bench({"a": REFUSED, "f": answer}, after=STATUS)
    plan = Plan(stages=((patch("a"),),))
    for names in (["a", "f"], ["a"], ["f"], ["a"]):
        await bench.execute(plan)
        assert bench.names == names
        await bench.execute_at_once(plan)
        assert bench.names == [], "an event sends nothing before its time"
    bench.outcomes.pop("f")
    await bench.execute(plan)
    assert bench.names == ["f"]
    bench.status, bench.outcomes = STATUS.wanted, {}
    await bench.execute(plan)
    assert bench.names == ["a"], "a status that is stored releases nothing else, and delays nothing"


async def test_a_commit_that_was_refused_waits_and_so_does_all_that_follows():
    bench = Bench({"f": REFUSED})
    plan = Plan(commit=COMMIT, stages=((patch("a"),),), independent=(patch("b"),))
    first = await bench.execute(plan)
    assert (first.result, bench.names) == (Result.FAILED, ["f"])
    again = await bench.execute_at_once(plan)
    assert (again.result, again.failures, bench.names) == (Result.FAILED, first.failures, [])
    bench.outcomes.clear()
    assert (await bench.execute(plan)).result is Result.DONE
    assert bench.names == ["f", "a", "b"]


def stored(revision: str, status: Any) -> Widget:
    return Widget(metadata=msgspec.structs.replace(META, resource_version=revision), status=status)
