"""Expectations, by upstream's rows, in our form: reads overlaid with own writes.

Where upstream counts, or parks a key until a revision is reached, Manta shows the planner what it
did itself. So each row asks: is the planner ever shown less than was done, or more?
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from controller.kube.errors import OutcomeUnknown
from controller.kube.objects import KubeObject
from controller.kube.resources import CONFIG_MAPS, Resource
from controller.runtime.plan import Create, MergePatch, Plan, StatusPatch, Target
from controller.testing.faults import (
    ErrorResponse,
    LostRequest,
    LostResponse,
    Refused,
    Rule,
    watch_cut,
    watch_lag,
)
from tests.fakes.operators import informer_of, unready_cache, unseen_writes
from tests.runtime.kit import (
    BATCH,
    OWNER,
    Book,
    Call,
    Owner,
    Result,
    ScriptedClient,
    WriteOutcome,
    child,
    create,
    delete,
    patch,
    status_error,
)
from tests.runtime.widgets import (
    GADGETS,
    LABEL,
    WIDGETS,
    Seen,
    StaleCache,
    WidgetKind,
    WidgetWorld,
    widget_world,
)

LIVE_READ = 30.0


@pytest.fixture
async def widgets() -> AsyncIterator[WidgetWorld]:
    async with widget_world() as world:
        yield world


def test_an_own_create_counts_from_its_answer_on_and_never_expires_blindly():
    book = Book()
    book.make("a", 10)
    assert book.names() == ["a"], "the cache has not shown it"
    book.time = 3600.0
    book.bookmark(9)
    assert book.names() == ["a"], "no time-out makes it disappear"
    book.show(child("a", 10))
    book.show(child("a", 11))
    assert book.names() == ["a"]
    assert book.entries == 0, "settled, however often it is observed"


def test_each_deletion_is_seen_once_and_unknown_objects_do_not_matter():
    book = Book()
    for name in ("a", "b"):
        book.show(child(name, 2))
    book.unmake("a")
    book.remove(child("x", 3, owner="else"), 4)
    assert book.live() == ["b"]
    assert book.names() == ["a", "b"], "terminating counts as existing"
    book.remove(child("a", 2), 5)
    book.remove(child("x", 3, owner="else"), 6)
    assert book.names() == book.live() == ["b"]
    assert book.entries == 0


def test_whatever_comes_first_answer_or_event_nothing_is_counted_twice():
    for order in itertools.permutations(["answer", "event"]):
        book = Book()
        write = create("a")
        book.sent(write)
        for what in order:
            if what == "answer":
                book.done(write, child("a", 10))
            else:
                book.show(child("a", 10))
            assert book.names() == ["a"], order
        assert book.entries == 0, order


def test_an_owner_that_is_gone_leaves_nothing_behind():
    book = Book()
    book.make("a", 10)
    book.lost(create("b"))
    book.taken(create("c"))
    assert book.entries == 3
    book.gone()
    assert book.entries == 0
    assert book.pending() == frozenset()


def test_a_namesake_with_another_uid_starts_clean():
    book = Book()
    book.make("a", 10)
    book.lost(create("b"))
    namesake = Owner("uid-second", OWNER.key, OWNER.controller)
    book.owned_by(namesake)
    assert book.entries == 0
    assert book.names(namesake.uid) == []
    assert book.pending(namesake.uid) == frozenset()
    book.done(create("a"), child("a", 10))
    assert book.entries == 0, "a late answer for the old one is not kept either"


def test_an_absence_from_a_list_settles_a_deletion():
    book = Book()
    book.show(child("a", 2))
    book.unmake("a")
    book.relist([], 20)
    assert book.names() == []
    assert book.entries == 0
    assert book.questions == []


def test_terminating_is_a_deletion_and_the_real_end_is_not_a_second_one():
    book = Book()
    book.show(child("a", 2))
    book.unmake("a", answer=child("a", 5, terminating=True))
    assert (book.names(), book.live()) == (["a"], [])
    book.show(child("a", 5, terminating=True))
    assert (book.names(), book.live()) == (["a"], [])
    assert book.entries == 0, "the store says it itself now"
    book.remove(child("a", 5, terminating=True), 7)
    assert book.names() == []
    book.show(child("b", 8, terminating=True))
    assert (book.names(), book.live()) == (["b"], []), "also when it was never seen alive"


def test_a_deletion_without_an_object_in_its_answer_is_settled_by_terminating_too():
    book = Book()
    book.show(child("a", 2))
    book.unmake("a")
    assert (book.live(), book.entries) == ([], 1)
    book.show(child("a", 5, terminating=True))
    assert (book.live(), book.entries) == ([], 0)


async def test_the_controller_closes_the_account_of_an_owner_that_is_gone(widgets: WidgetWorld):
    operator = widgets.start()
    await widgets.create("first", size=1)
    await widgets.counted(1, "first")
    operator.transport.rules = [watch_lag("configmaps", 300.0)]
    await widgets.create(size=3)
    await widgets.counted(3)
    assert unseen_writes(operator) == 3
    await widgets.user.delete(WIDGETS, "default", "f")
    await widgets.settle(1)
    assert unseen_writes(operator) == 0


def test_the_newest_revision_observed_is_kept_and_only_grows():
    book = Book()
    assert book.revision() == "1"
    book.make("a", 12)
    book.make("b", 10)
    assert book.revision() == "12"
    book.show(child("a", 12))
    book.show(child("c", 15))
    assert book.revision() == "15"
    book.relist([], 14)
    assert book.revision() == "15"


@pytest.mark.parametrize(
    ("shown", "passed", "settled", "asked"),
    [
        (None, 9, False, False),  # older store
        (9, 9, False, False),  # an older version of the object
        (10, 10, True, False),  # equal
        (11, 11, True, False),  # newer
        (None, 10, False, True),  # passed without being shown: only the server can tell
    ],
)
def test_an_entry_is_settled_by_what_the_store_shows(
    shown: int | None, passed: int, settled: bool, asked: bool
):
    book = Book()
    if shown == 9:
        book.show(child("a", 9))
    book.done(patch("a"), child("a", 10))
    if shown is not None and shown > 9:
        book.show(child("a", shown))
    book.bookmark(passed)
    assert (book.entries == 0) is settled
    assert (book.questions == ["a"]) is asked
    assert book.get().metadata.resource_version == str(max(shown or 0, 10))


def test_revisions_that_cannot_be_compared_are_settled_by_a_live_read():
    book = Book(revision="opaque")
    book.done(create("a"), child("a", 10))
    assert book.names() == ["a"]
    assert book.questions == ["a"]


def test_accounts_go_by_uid_and_all_writes_of_one_owner_share_one():
    book = Book()
    for name in ("a", "b"):
        book.sent(create(name))
    assert book.pending() == {"children"}
    second = Owner("uid-second", "default/g", OWNER.controller)
    book.owned_by(second)
    book.gone(Owner("", "default/unknown", OWNER.controller))
    book.gone(Owner("", OWNER.key, "another-controller"))
    assert book.entries == 2, "clearing another name or for another controller is a no-op"
    book.gone()
    assert book.entries == 0


def stage(count: int) -> Plan:
    return Plan(stages=(tuple(create(f"b{n}") for n in range(count)),))


@pytest.mark.parametrize(
    ("works", "calls", "made"), [(0, 1, 0), (10, 10, 10), (5, 7, 5)], ids=["none", "all", "five"]
)
async def test_creates_start_slowly_and_stop_at_the_first_failure(
    works: int, calls: int, made: int
):
    book, client = Book(), ScriptedClient()

    def quota(call: Call):
        if len(client.objects) >= works:
            raise status_error(403, "Forbidden")
        return client.serve(call)

    client.script = quota
    outcome = await book.execute(client, stage(10))
    assert (len(client.calls), len(client.objects)) == (calls, made)
    assert len(book.names()) == made
    assert outcome.result is (Result.DONE if made == 10 else Result.FAILED)


async def test_every_write_is_made_once_and_never_more_than_a_batch():
    for count in (1, 2, 3, 7, 63, 64, 65, 200):
        book, client = Book(), ScriptedClient()
        rounds = 0
        wanted = [f"b{n}" for n in range(count)]
        while True:
            left = tuple(create(name) for name in wanted if name not in book.names())
            outcome = await book.execute(client, Plan(stages=(left,)))
            rounds += 1
            assert outcome.writes["create"] <= BATCH
            if outcome.result is Result.DONE:
                break
            assert outcome.result is Result.MORE
        assert client.verbs("create") == wanted
        assert rounds == -(-count // BATCH)
        assert client.most <= BATCH


async def test_a_quota_of_ten_costs_few_calls():
    book, client = Book(), ScriptedClient()

    def quota(call: Call):
        if len(client.objects) >= 10:
            raise status_error(403, "Forbidden")
        return client.serve(call)

    client.script = quota
    first = await book.execute(client, stage(100))
    assert first.result is Result.FAILED
    assert len(client.calls) == 1 + 2 + 4 + 8
    assert len(book.names()) == 10
    await book.execute(client, stage(100))
    assert len(client.calls) == 15, "what was refused waits"
    book.time = 5.0
    await book.execute(client, stage(100))
    assert len(client.calls) == 15 + 1


async def test_a_lost_create_is_not_repeated_for_an_owner_that_is_gone(widgets: WidgetWorld):
    operator = widgets.start(rules=[Rule(LostRequest(), "configmaps", frozenset({"create"}))])
    await widgets.create(size=1)
    await widgets.settle(0.2)
    await widgets.user.delete(WIDGETS, "default", "f")
    operator.transport.rules = []
    await widgets.settle(120)
    assert widgets.created == []
    assert unseen_writes(operator) == 0


async def test_a_404_on_delete_is_success():
    book, client = Book(), ScriptedClient()
    book.show(child("a", 2))
    outcome = await book.execute(client, Plan(stages=((delete("a"),),)))
    assert outcome.result is Result.DONE
    assert outcome.failures == ()
    assert book.names() == [], "hidden although the cache still shows it"


async def test_each_kind_of_write_is_recorded_by_the_writer():
    client = ScriptedClient()
    for write, verb in [(create("a"), "create"), (patch("a", k="v"), "patch"), (delete("a"), "x")]:
        book = Book()
        if verb != "create":
            book.show(child("a", 2))
            client.objects["a"] = child("a", 2)
        else:
            client.objects.clear()
        result = await book.perform(client, write)
        assert result.outcome is WriteOutcome.DONE
        assert book.entries == 1, "the store is behind"
        if verb == "x":
            assert book.live() == []
            book.remove(child("a", 2), client.revision)
        else:
            assert book.get() is result.obj
            book.show(client.objects["a"])
        assert book.entries == 0, "and now it is not"


def test_every_action_is_expected_by_name_and_has_an_age():
    book = Book()
    book.show(child("b", 2))
    book.make("a", 10)
    book.time = 4.0
    book.unmake("b")
    book.time = 7.0
    assert (book.names(), book.live()) == (["a", "b"], ["a"])
    assert book.statistics().pending == 2
    assert book.statistics().oldest_age == 7.0
    book.show(child("a", 10))
    assert book.statistics().oldest_age == 3.0


def test_a_newer_state_seen_first_settles_at_once_and_so_does_a_deletion():
    book = Book()
    book.show(child("a", 12))
    book.done(patch("a"), child("a", 11))
    assert book.entries == 0
    assert book.get().metadata.resource_version == "12"
    book.done(patch("a"), child("a", 20))
    book.remove(child("a", 20, terminating=True), 21)
    assert book.entries == 0


def test_a_patched_object_is_shown_as_patched_until_the_store_shows_it():
    book = Book()
    book.show(child("a", 2, data={"hash": "old"}))
    book.done(patch("a", hash="new"), child("a", 10, data={"hash": "new"}))
    assert book.get().data == {"hash": "new"}
    book.show(child("a", 9, data={"hash": "old"}))
    assert book.get().data == {"hash": "new"}, "an event from before the patch"
    book.show(child("a", 10, data={"hash": "new"}))
    assert book.entries == 0


def test_a_delete_after_the_create_of_the_same_object_is_not_forgotten():
    book = Book()
    book.make("a", 10)
    book.unmake("a")
    assert (book.names(), book.live()) == (["a"], [])
    book.show(child("a", 10))
    assert (book.names(), book.live()) == (["a"], []), "the event of the create comes late"
    book.remove(child("a", 10), 12)
    assert book.names() == []
    assert book.entries == 0


def test_after_thirty_seconds_the_server_is_asked_and_nothing_is_assumed():
    book = Book()
    book.make("a", 10)
    book.show(child("b", 2))
    book.unmake("b")
    assert [book.next_question(name) for name in "ab"] == [LIVE_READ, LIVE_READ]
    book.time = LIVE_READ
    for name in ("a", "b"):
        assert book.next_question(name) <= 0
    book.answer("a", child("a", 10))
    book.answer("b", None)
    assert book.names() == ["a"], "the create is there, the deleted one is gone"
    assert book.woken == [OWNER, OWNER]
    assert book.next_question("a") == 2 * LIVE_READ, "a slow cache is asked about less"


# -- failures -------------------------------------------------------------------------------------


def test_reads_are_by_owner_uid_and_an_object_may_have_several():
    book = Book()
    other = Owner("uid-other", "default/o", "others")
    book.owned_by(other)
    book.done(create("a"), child("a", 10))
    book.done(patch("a"), child("a", 11), other)
    book.gone()
    assert book.get().metadata.resource_version == "11", "the other still has a claim"
    book.gone(other)
    assert book.entries == 0


def test_the_lost_write_of_another_owner_does_not_hold_this_one_back():
    book = Book()
    other = Owner("uid-other", "default/o", "others")
    book.owned_by(other)
    book.make("a", 10)
    book.lost(patch("a"), other)
    assert book.pending(other.uid) == {"children"}
    assert book.pending() == frozenset()


def test_an_answer_to_a_create_outdates_what_was_known_of_the_name():
    book = Book()
    book.looked_up("a", None)
    book.taken(create("a"))
    book.make("a", 10)
    assert not book.is_absent()
    assert not book.is_taken()


def test_an_object_found_alive_outside_the_selection_is_kept_and_said():
    book = Book()
    book.show(child("a", 2))
    book.remove(child("a", 2), 10)
    assert book.names() == ["a"], "it may have left the selector alive"
    assert book.questions == ["a"]
    book.answer("a", child("a", 10, labels={"widget": "other"}))
    assert book.names() == ["a"]
    (doubt,) = book.warnings()
    assert doubt.startswith("configmaps default/a exists but is not in the watched selection; put ")
    book.answer("a", None)
    assert book.names() == []
    assert book.warnings() == ()
    assert book.entries == 0


def test_an_object_outside_the_selection_counts_as_pending_only_while_it_is_written():
    book = Book()
    book.show(child("a", 2))
    book.remove(child("a", 2), 10)
    book.answer("a", child("a", 10, labels={"widget": "other"}))
    book.time += 1000
    assert book.statistics().pending == 0
    book.sent(delete("a"))
    book.time += 3
    seen = book.statistics()
    assert (seen.pending, seen.oldest_age) == (1, 3.0)
    book.unmake("a")
    assert book.statistics().pending == 0


def test_without_a_selector_a_deletion_is_a_deletion():
    book = Book(selective=False)
    book.show(child("a", 2))
    book.remove(child("a", 2), 10)
    assert book.names() == []
    assert book.questions == []


def test_what_was_seen_terminating_needs_no_question():
    book = Book()
    book.show(child("a", 2, terminating=True))
    book.remove(child("a", 2, terminating=True), 10)
    assert (book.names(), book.questions) == ([], [])


def test_a_namesake_made_by_somebody_else_is_what_counts():
    book = Book()
    book.make("a", 10)
    book.show(child("a", 14, uid="uid-foreign", owner="uid-else"))
    assert book.names() == []
    assert book.get().metadata.uid == "uid-foreign"
    assert book.entries == 0


def test_an_older_namesake_does_not_hide_what_was_made():
    book = Book()
    book.show(child("a", 5, uid="uid-before", owner="uid-else"))
    book.make("a", 10)
    assert book.names() == ["a"]
    assert book.get().metadata.uid == "uid-a"


async def test_a_create_without_a_name_of_its_own_is_refused():
    book, client = Book(), ScriptedClient()
    nameless = create("a")
    nameless.body["metadata"]["generateName"] = nameless.body["metadata"].pop("name")
    with pytest.raises(ValueError, match="exactly this name"):
        await book.perform(client, nameless)
    assert client.calls == []


@pytest.mark.parametrize("theirs", ["", "uid-else"])
async def test_a_name_taken_by_somebody_else_is_said_and_not_fought_for(theirs: str):
    book, client = Book(), ScriptedClient()
    client.objects["a"] = child("a", 50, uid="uid-foreign", owner=theirs)
    outcome = await book.execute(client, Plan(stages=((create("a"),),)))
    assert outcome.result is Result.AGAIN
    assert book.is_taken()
    assert book.names() == []
    book.answer("a", None)
    assert not book.is_taken()


async def test_our_own_object_under_that_name_is_success():
    book, client = Book(), ScriptedClient()
    client.objects["a"] = child("a", 50)
    outcome = await book.execute(client, Plan(stages=((create("a"),),)))
    assert outcome.result is Result.DONE
    assert book.names() == ["a"]
    assert client.verbs("create") == client.verbs("get") == ["a"]


async def test_a_conflict_is_quiet_and_the_next_plan_sees_the_newer_object():
    book, client = Book(), ScriptedClient()
    book.show(child("a", 2, data={"k": "old"}))
    client.objects["a"] = child("a", 50, data={"k": "theirs"})

    def conflict(call: Call):
        if call.verb == "patch":
            raise status_error(409, "Conflict")
        return client.serve(call)

    client.script = conflict
    plan = Plan(stages=((patch("a", revision="2", k="ours"),),))
    outcome = await book.execute(client, plan)
    assert outcome.result is Result.AGAIN
    assert outcome.failures == ()
    assert book.get().data == {"k": "theirs"}


async def test_a_delete_that_meets_another_uid_is_done():
    book, client = Book(), ScriptedClient()
    book.show(child("a", 2))
    client.objects["a"] = child("a", 50, uid="uid-foreign", owner="uid-else")
    outcome = await book.execute(client, Plan(stages=((delete("a"),),)))
    assert outcome.result is Result.DONE
    assert client.objects["a"].metadata.uid == "uid-foreign"
    assert book.names() == [], "ours is gone"


async def test_a_terminating_namespace_stops_creating_without_retry():
    book, client = Book(), ScriptedClient()

    def terminating(call: Call):
        raise status_error(403, "Forbidden", cause="NamespaceTerminating")

    client.script = terminating
    outcome = await book.execute(client, stage(BATCH + 6))
    assert outcome.result is Result.DONE
    assert len(client.calls) == 1
    assert outcome.failures[0].reason == "NamespaceTerminating"


async def test_a_write_cancelled_under_way_is_unknown():
    book, client = Book(), ScriptedClient()
    task = asyncio.create_task(book.perform(client, create("a")))
    await asyncio.sleep(0.5)
    assert book.pending() == {"children"}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert book.pending() == {"children"}
    assert book.statistics().unknown == 1
    assert book.questions == ["a"]


async def test_of_a_batch_successes_are_recorded_and_failures_are_not():
    book, client = Book(), ScriptedClient()

    def second_fails(call: Call):
        if call.name == "b1":
            raise status_error(422, "Invalid")
        if call.name == "b2":
            raise OutcomeUnknown("reset")
        return client.serve(call)

    client.script = second_fails
    outcome = await book.execute(client, stage(7))
    assert outcome.result is Result.FAILED
    assert book.names() == ["b0"]
    assert len(client.calls) == 3, "the rest was not tried"
    assert [(f.reason, f.unknown) for f in outcome.failures] == [
        ("Invalid", False),
        ("OutcomeUnknown", True),
    ]
    assert book.statistics().unknown == 1


async def test_what_admission_made_of_it_is_what_counts():
    book, client = Book(), ScriptedClient()

    def webhook(call: Call):
        client.serve(call)
        return child("a", 50, labels={"widget": "f", "added": "by-webhook"})

    client.script = webhook
    await book.perform(client, create("a"))
    assert book.get().metadata.labels["added"] == "by-webhook"
    assert book.warnings() == ()


@pytest.mark.parametrize(
    ("made", "sentence", "blocks"),
    [
        (child("a", 50, labels={"widget": "x"}), "label widget", False),
        (child("a", 50, owner=""), "owner reference", True),
    ],
)
async def test_an_admission_conflict_is_said_and_not_tried_again(made, sentence, blocks):
    book = Book()
    client = ScriptedClient(script=lambda _call: made)
    await book.perform(client, create("a"))
    (doubt,) = book.warnings()
    assert doubt.startswith(
        f"admission changed {sentence} of configmaps default/a; exempt the oper"
    )
    assert (book.pending() == {"children"}) is blocks
    book.show(made)
    book.remove(made, 60)
    assert book.questions == ["a"], "is the doubtful object gone?"
    book.answer("a", None)
    assert book.warnings() == ()
    assert book.pending() == frozenset()


async def test_foreign_objects_are_not_counted_and_a_failed_patch_surfaces():
    book, client = Book(), ScriptedClient()
    book.show(child("theirs", 2, owner="uid-else"))
    book.show(child("orphan", 3, owner=""))
    assert book.names() == []

    def forbidden(call: Call):
        raise status_error(403, "Forbidden", message="no patching")

    client.script = forbidden
    outcome = await book.execute(client, Plan(stages=((patch("a", k="v"),),)))
    assert outcome.result is Result.FAILED
    assert outcome.failures[0].message == "no patching"


async def test_status_is_written_although_nothing_else_may_be_done():
    book, client = Book(), ScriptedClient()
    book.lost(create("a"))
    assert book.pending() == {"children"}
    client.objects["f"] = child("f", 5, uid=OWNER.uid, owner="")
    plan = Plan(status=StatusPatch({"children": 3}))
    outcome = await book.execute(client, plan)
    assert outcome.writes == {"create": 1, "status": 1}
    assert (book.names(), book.pending()) == (["a"], frozenset())
    assert outcome.result is Result.MORE, "and acts again"


# -- the same on an API server --------------------------------------------------------------------


@pytest.mark.parametrize("resource", [CONFIG_MAPS, GADGETS], ids=str)
async def test_a_lost_answer_to_a_create_makes_exactly_one_child(
    widgets: WidgetWorld, resource: Resource
):
    for skip in range(4):
        lost = Rule(LostResponse(), str(resource), frozenset({"create"}), skip=skip, times=1)
        operator = widgets.start(kind=WidgetKind(child=resource), rules=[watch_lag("", 5.0), lost])
        await widgets.create(f"f{skip}", size=4)
        await widgets.counted(4, f"f{skip}")
        assert widgets.children == 4 * (skip + 1)
        assert widgets.most == widgets.children, "there never were more, not even for a moment"
        assert await operator.stop() == 0
    assert widgets.deleted == []


@pytest.mark.parametrize("resource", [CONFIG_MAPS, GADGETS], ids=str)
async def test_a_deleted_object_is_not_seen_as_alive_by_the_next_sync(
    widgets: WidgetWorld, resource: Resource
):
    """Custom resources answer a DELETE with a Status, without a revision."""
    operator = widgets.start(
        kind=WidgetKind(child=resource), rules=[watch_lag(str(resource), 10.0)]
    )
    await widgets.create(size=6)
    await widgets.counted(6)
    await widgets.resize(4)
    await widgets.eventually(lambda: len(widgets.deleted) == 2)
    operator.enqueue("default/f")
    await widgets.settle(5)
    assert len(widgets.deleted) == 2
    alive = [b for b in operator.kind.seen[-1].children if not b.metadata.terminating]
    assert len(alive) == 4
    await widgets.counted(4)
    assert (len(widgets.created), len(widgets.deleted)) == (6, 2)


@pytest.mark.parametrize("fault", [LostResponse(), LostRequest()], ids=["answer", "request"])
async def test_a_lost_delete_is_repeated_with_the_same_uid(
    widgets: WidgetWorld, fault: LostResponse | LostRequest
):
    widgets.start(
        rules=[
            watch_lag("configmaps", 5.0),
            Rule(fault, "configmaps", frozenset({"delete"}), times=1),
        ]
    )
    await widgets.create(size=5)
    await widgets.counted(5)
    await widgets.resize(3)
    await widgets.counted(3)
    assert (len(widgets.created), len(widgets.deleted)) == (5, 2)


async def test_what_was_made_and_removed_while_the_watch_was_down_is_made_again(
    widgets: WidgetWorld,
):
    operator = widgets.start()
    await widgets.create(size=1)
    await widgets.counted(1)
    down = Rule(Refused(), "configmaps", frozenset({"watch"}))
    operator.transport.rules = [watch_cut("configmaps", 1), down]
    await widgets.user.merge_patch(CONFIG_MAPS, *split(widgets.created[0]), {"data": {"k": "v"}})
    await widgets.settle(1)
    await widgets.resize(2)
    await widgets.eventually(lambda: len(widgets.created) == 2)
    await widgets.user.delete(CONFIG_MAPS, *split(widgets.created[1]))
    widgets.server.compact()
    await widgets.settle(3)
    assert len(widgets.created) == 2, "nobody could know yet"
    informer = informer_of(operator, CONFIG_MAPS)
    relisted: list[float] = []
    informer.on_change(lambda _changes, _revision: relisted.append(widgets.loop.time()))
    operator.transport.rules = []
    await widgets.eventually(lambda: len(widgets.created) == 3, seconds=25)
    assert widgets.loop.time() - relisted[0] < 1
    assert informer.statistics().relists
    await widgets.counted(2)
    assert widgets.children == 2


def test_only_a_write_that_was_carried_out_can_be_overdue_in_the_caches():
    book = Book()
    book.lost(create("a"))
    book.time += 1000
    seen = book.statistics()
    assert (seen.oldest_age, seen.oldest_unseen) == (1000.0, 0.0)
    book.make("a", 10)
    book.time += 5
    assert book.statistics().oldest_unseen == 5.0
    book.show(child("a", 10))
    assert book.statistics().oldest_unseen == 0.0


async def test_with_a_cache_frozen_for_ten_minutes_there_are_no_duplicates(widgets: WidgetWorld):
    operator = widgets.start()
    await widgets.create(size=1)
    await widgets.counted(1)
    refused = Rule(ErrorResponse(503, "ServiceUnavailable"), "configmaps", frozenset({"list"}))
    operator.transport.rules = [watch_lag("configmaps", 700.0), refused]
    await widgets.resize(5)
    await widgets.eventually(lambda: widgets.children == 5)
    for _ in range(10):
        await widgets.settle(60)
        operator.enqueue("default/f")
    assert (len(widgets.created), widgets.most) == (5, 5)
    overdue = unready_cache(operator)
    assert overdue is not None
    assert "own write has not been seen" in overdue
    operator.transport.rules = []
    await widgets.settle(900)
    assert unready_cache(operator) is None
    assert unseen_writes(operator) == 0
    assert widgets.children == 5


async def test_a_cache_whose_watch_is_frozen_is_listed_again(widgets: WidgetWorld):
    operator = widgets.start()
    await widgets.create(size=1)
    await widgets.counted(1)
    operator.transport.rules = [watch_lag("configmaps", 1e5)]
    await widgets.resize(5)
    await widgets.settle(700)
    assert unseen_writes(operator) == 0
    assert unready_cache(operator) is None
    assert (len(widgets.created), widgets.most) == (5, 5)


async def test_an_answer_older_than_the_store_was_is_a_sign_of_a_restored_database():
    book = Book()
    book.show(child("a", 50))
    book.bookmark(100)
    for write, answer, created in (
        (create("b"), child("b", 101), True),
        (patch("a"), child("a", 101), False),
        (patch("a"), child("a", 50), False),  # it changed nothing
        (create("c"), child("c", 90), False),  # it had been made before
        (patch("c"), child("c", 90), False),  # the store does not show it
    ):
        book.sent(write)
        book.done(write, answer, created=created)
    assert book.signs == []
    for write, answer, created in (
        (create("d"), child("d", 99), True),
        (patch("a"), child("a", 60), False),
        (patch("a"), child("a", 40), False),
    ):
        book.sent(write)
        book.done(write, answer, created=created)
        assert f" is at {answer.metadata.resource_version}, " in book.signs.pop()
    book.sent(patch("a"))
    book.conflicted(patch("a"), child("a", 40))
    assert book.signs.pop() == "configmaps default/a is at 40, the store was at 100 before"


async def test_a_child_that_lost_its_label_is_kept_and_the_condition_says_so(widgets: WidgetWorld):
    operator = widgets.start()
    await widgets.create(size=2)
    await widgets.counted(2)
    await widgets.user.merge_patch(
        CONFIG_MAPS, *split(widgets.created[0]), {"metadata": {"labels": {"widget": None}}}
    )

    async def message() -> str:
        return (await widgets.widget()).status.conditions[0]["message"]

    async def said() -> bool:
        return "is not in the watched selection" in await message()

    await widgets.eventually(said)
    await widgets.settle(60)
    assert len(widgets.created) == 2, "it is not replaced: it still runs"
    await widgets.user.delete(CONFIG_MAPS, *split(widgets.created[0]))
    await widgets.eventually(lambda: len(widgets.created) == 3, seconds=600)

    async def healed() -> bool:
        return await message() == ""

    await widgets.eventually(healed)
    assert unseen_writes(operator) == 0


async def test_our_own_write_that_leaves_the_selection_does_not_make_a_second_child(
    widgets: WidgetWorld,
):
    def relabelled(seen: Seen) -> Plan | None:
        if len(seen.children) != 1 or not seen.children[0].metadata.labels:
            return None
        meta = seen.children[0].metadata
        change = {"metadata": {"labels": {"widget": None}}}
        where = Target(CONFIG_MAPS, meta.namespace, meta.name, "children")
        return Plan(stages=((MergePatch(where, meta.uid, change),),))

    widgets.start(kind=WidgetKind(plan_hook=relabelled))
    await widgets.create(size=1)
    await widgets.counted(1)
    await widgets.settle(120)
    assert len(widgets.created) == 1


async def test_a_new_operator_does_not_trust_a_cache_older_than_now(widgets: WidgetWorld):
    stale = StaleCache(widgets.server, "/api/v1/configmaps")
    await stale.remember({"labelSelector": LABEL})
    first = widgets.start()
    await widgets.create(size=3)
    await widgets.counted(3)
    await first.kill()
    second = widgets.start(server=stale, rules=[watch_lag("configmaps", 20.0)])
    await widgets.eventually(lambda: second.kind.seen, seconds=90)
    assert len(second.kind.seen[0].children) == 3
    await widgets.settle(60)
    assert (len(widgets.created), len(widgets.deleted)) == (3, 0)


async def test_a_patch_that_changes_nothing_is_settled_at_once(widgets: WidgetWorld):
    done = False

    def touch(seen: Seen) -> Plan | None:
        nonlocal done
        if done or len(seen.children) != 1:
            return None
        done = True
        meta = seen.children[0].metadata
        where = Target(CONFIG_MAPS, meta.namespace, meta.name, "children")
        return Plan(stages=((MergePatch(where, meta.uid, {"data": {}}),),))

    operator = widgets.start(kind=WidgetKind(plan_hook=touch))
    await widgets.create(size=1)
    await widgets.eventually(lambda: done)
    await widgets.settle(1)
    assert unseen_writes(operator) == 0


def test_two_resources_are_settled_each_by_its_own_store():
    book = Book()
    book.watch(GADGETS)
    gadget = KubeObject(metadata=child("e", 10).metadata)
    book.make("a", 9)
    book.done(Create(Target(GADGETS, "default", "e"), {}), gadget)
    book.show(child("a", 11))
    assert book.entries == 1, "one cache has caught up, the other has not"
    assert book.children(OWNER.uid, GADGETS) == [gadget]
    book.show(gadget, GADGETS)
    assert book.entries == 0


async def test_reconciles_held_back_by_an_unknown_write_are_counted(widgets: WidgetWorld):
    registry = CollectorRegistry()
    lost = Rule(LostRequest(), "configmaps", frozenset({"create"}), times=3)
    operator = widgets.start(registry=registry, rules=[lost])
    await widgets.create(size=1)
    await widgets.settle(0.2)
    operator.enqueue("default/f")
    await widgets.counted(1)
    labels = {"controller": "widget-controller", "group": "", "resource": "configmaps"}
    assert registry.get_sample_value("stale_sync_skips_total", labels) >= 1


def split(key: str) -> tuple[str, str]:
    namespace, _, name = key.partition("/")
    return namespace, name
