"""Questions that the store cannot answer: who asks the server, when, and what follows."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from controller.kube.errors import OutcomeUnknown
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.expectations.owners import Owner
from controller.runtime.plan import Failure
from controller.runtime.reconcile.writes.resolver import CONCURRENCY, ExpectationResolver
from controller.runtime.reconcile.writes.writer import Writer
from tests.runtime.kit import (
    OWNER,
    Book,
    Call,
    ScriptedClient,
    child,
    create,
    delete,
    patch,
    status_error,
    target,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class ResolverBench(Book):
    """Expectations whose resolver asks a scripted server, in virtual time."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        super().__init__()
        self.client = ScriptedClient(seconds=0.01)
        self.resolver = ExpectationResolver(
            self.expectations,
            Writer(self.client, self.expectations),
            self.client,
            clock=self.loop,
            rng=random.Random(1),
        )

    def now(self) -> float:
        return self.loop.time()


@asynccontextmanager
async def settling() -> AsyncIterator[ResolverBench]:
    book = ResolverBench()
    task = asyncio.create_task(book.resolver.run())
    yield book
    if not book.entries:
        assert book.resolver._queue.statistics().failing == 0
    book.resolver.close()
    await task


def raise_recursion_error(call: Call) -> None:
    raise RecursionError(f"{call.name} cannot be decoded")


def pending_scopes(book: Book) -> frozenset[str]:
    return book.expectations.reader.pending_scopes(OWNER.uid)


async def test_a_lost_create_that_did_not_happen_is_made_now():
    async with settling() as book:
        book.expectations.mark_unknown(OWNER, create("a"))
        await asyncio.sleep(1)
        assert book.client.verbs("create") == ["a"]
        assert (book.names(), pending_scopes(book)) == (["a"], frozenset())
        assert OWNER in book.woken


async def test_what_the_store_shows_in_time_wakes_nobody_later():
    async with settling() as book:
        book.make("a", 10)
        assert book.resolver._queue.statistics().delayed == 1
        book.show(child("a", 10))
        assert (book.entries, book.resolver._queue.statistics().delayed) == (0, 0)


async def test_what_the_store_shows_after_a_live_read_has_failed_counts_no_more_as_failing():
    async with settling() as book:
        book.client.script = unreachable
        book.make("a", 10)
        await asyncio.sleep(31)
        assert book.resolver._queue.statistics().failing == 1
        book.show(child("a", 10))
        assert book.resolver._queue.statistics().failing == 0


async def test_a_turn_is_given_away_by_one_that_the_store_has_shown_meanwhile():
    async with settling() as book:
        book.client.script = unreachable
        for name in ("a", "b"):
            book.expectations.mark_unknown(OWNER, create(name))
        await asyncio.sleep(1)
        book.show(child("a", 2))
        book.client.script = None
        await asyncio.sleep(120)
        assert (book.names(), pending_scopes(book)) == (["a", "b"], frozenset())


async def test_an_error_that_nobody_expected_ends_no_task_and_costs_only_its_object():
    with capture_logs():
        book = await _after_many_errors()
    assert book.names() == ["good"]
    assert pending_scopes(book) == frozenset()


async def _after_many_errors() -> ResolverBench:
    async with settling() as book:
        book.client.script = raise_recursion_error
        for number in range(2 * CONCURRENCY):
            book.expectations.mark_unknown(OWNER, patch(f"odd-{number}"))
        await asyncio.sleep(5)
        book.client.script = None
        book.expectations.mark_unknown(OWNER, create("good"))
        await asyncio.sleep(60)
        return book


async def test_each_lost_create_that_is_made_now_lets_twice_as_many_follow_at_once():
    async with settling() as book:
        for name in "abcdefg":
            book.expectations.mark_unknown(OWNER, create(name))
        await asyncio.sleep(0.05)
        assert book.names() == [*"abcdefg"], "three steps of a hundredth of a second"


async def test_a_live_read_that_succeeds_ends_the_back_off_of_what_stays_expected():
    async with settling() as book:
        book.client.script = unreachable
        book.make("a", 10)
        book.bookmark(11)
        await asyncio.sleep(1)
        assert book.resolver._queue.statistics().failing == 1
        book.client.script, book.client.objects["a"] = None, child("a", 10, labels={"x": "y"})
        await asyncio.sleep(120)
        assert book.entries == 1, "it is outside the selection"
        assert book.resolver._queue.statistics().failing == 0


async def test_a_lost_create_that_did_happen_is_recognised():
    async with settling() as book:
        book.client.objects["a"] = child("a", 50)
        book.expectations.mark_unknown(OWNER, create("a"))
        await asyncio.sleep(1)
        assert [call.verb for call in book.client.calls] == ["create", "get"]
        assert (book.names(), pending_scopes(book)) == (["a"], frozenset())


def unreachable(_call: Call) -> Any:
    raise OutcomeUnknown("reset")


async def test_a_lost_create_that_the_cache_has_shown_is_not_repeated_under_a_name_that_was_used():
    async with settling() as book:
        book.client.script = unreachable
        book.expectations.mark_unknown(OWNER, create("a"))
        await asyncio.sleep(1)
        book.show(child("a", 2))
        assert (book.names(), pending_scopes(book)) == (["a"], frozenset())
        assert OWNER in book.woken
        book.remove(child("a", 3, terminating=True), 4)
        book.client.script = None
        book.client.calls.clear()
        await asyncio.sleep(120)
        assert book.client.calls == []
        assert (book.names(), book.entries) == ([], 0)


async def test_a_foreign_or_a_deleted_object_of_its_name_does_not_settle_a_lost_create():
    async with settling() as book:
        book.client.script = unreachable
        book.expectations.mark_unknown(OWNER, create("a"))
        book.show(child("a", 2, owner="uid-of-another"))
        assert pending_scopes(book) == {"children"}
        book.show(child("b", 3))
        book.expectations.confirm_gone(OWNER, delete("b"), "uid-b")
        book.expectations.mark_unknown(OWNER, create("b"))
        assert book.expectations.statistics().unknown == 2


@pytest.mark.parametrize("exists", [True, False])
async def test_a_repetition_that_is_refused_says_nothing_about_the_first_attempt(exists: bool):
    async with settling() as book:
        states: list[frozenset[str]] = []

        def refuse(call: Call) -> Any:
            states.append(pending_scopes(book))
            if call.verb == "create":
                raise status_error(403, "Forbidden")
            return book.client.serve(call)

        book.client.script = refuse
        if exists:
            book.client.objects["a"] = child("a", 50)
        book.expectations.mark_unknown(OWNER, create("a"))
        await asyncio.sleep(1)
        assert [call.verb for call in book.client.calls] == ["create", "get"]
        assert states == [{"children"}, {"children"}], "the scope is at rest until it is known"
        assert (book.names(), pending_scopes(book)) == (["a"] if exists else [], frozenset())
        assert OWNER in book.woken


async def test_as_long_as_nothing_is_known_it_is_asked_with_back_off():
    async with settling() as book:
        times: list[float] = []

        def lose(_call: Call) -> Any:
            times.append(book.loop.time())
            raise OutcomeUnknown("reset")

        book.client.script = lose
        book.expectations.mark_unknown(OWNER, create("a"))
        await asyncio.sleep(120)
        assert pending_scopes(book) == {"children"}
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert 6 <= len(times) <= 25
        assert gaps[-1] > 5 * gaps[0]
        book.client.script = None
        await asyncio.sleep(60)
        assert (book.names(), pending_scopes(book)) == (["a"], frozenset())


async def test_a_lost_delete_is_repeated_with_its_uid():
    async with settling() as book:
        book.show(child("a", 2))
        book.client.objects["a"] = child("a", 2)
        book.expectations.mark_unknown(OWNER, delete("a"))
        await asyncio.sleep(1)
        assert book.client.calls[0].body["uid"] == "uid-a"
        assert (book.live(), pending_scopes(book)) == ([], frozenset())


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_lost_delete_that_the_cache_has_shown_is_not_repeated(replaced: bool):
    async with settling() as book:
        book.client.script = unreachable
        book.show(child("a", 2))
        book.expectations.expect(OWNER, delete("a"))
        book.expectations.mark_unknown(OWNER, delete("a"))
        await asyncio.sleep(1)
        book.show(child("a", 2))
        assert pending_scopes(book) == {"children"}
        book.show(child("a", 3, uid="uid-2") if replaced else child("a", 3, terminating=True))
        assert (book.live(), pending_scopes(book)) == (["a"] if replaced else [], frozenset())
        assert OWNER in book.woken
        book.client.calls.clear()
        await asyncio.sleep(120)
        assert book.client.calls == []


async def test_a_lost_delete_of_what_was_terminating_before_is_settled_by_its_end():
    async with settling() as book:
        book.client.script = unreachable
        going = child("a", 2, terminating=True)
        book.show(going)
        book.expectations.expect(OWNER, delete("a"))
        book.expectations.mark_unknown(OWNER, delete("a"))
        assert pending_scopes(book) == {"children"}
        book.remove(going, 4)
        assert pending_scopes(book) == frozenset()


@pytest.mark.parametrize("exists", [False, True])
async def test_EXP24_a_lost_delete_of_what_left_the_selection_is_settled_by_looking(exists: bool):
    def only_read(call: Call) -> Any:
        return book.client.serve(call) if call.verb == "get" else unreachable(call)

    async with settling() as book:
        book.client.script = only_read
        book.show(child("a", 2))
        if exists:
            book.client.objects["a"] = child("a", 3, labels={})
        book.expectations.expect(OWNER, delete("a"))
        book.expectations.mark_unknown(OWNER, delete("a"))
        await asyncio.sleep(1)
        book.remove(child("a", 2), 4)
        await asyncio.sleep(60)
        assert (book.live(), pending_scopes(book)) == (["a"] if exists else [], frozenset())


async def test_a_lost_delete_of_a_child_that_the_cache_has_yet_to_show_is_not_settled_by_that():
    async with settling() as book:
        book.client.script = unreachable
        book.make("a", 10)
        book.expectations.expect(OWNER, delete("a"))
        book.expectations.mark_unknown(OWNER, delete("a"))
        book.bookmark(5)
        assert pending_scopes(book) == {"children"}
        book.show(child("a", 10))
        assert pending_scopes(book) == {"children"}
        book.show(child("a", 11, terminating=True))
        assert pending_scopes(book) == frozenset()


async def test_a_lost_patch_is_settled_by_looking():
    async with settling() as book:
        book.show(child("a", 2))
        book.client.objects["a"] = child("a", 50, data={"k": "v"})
        book.expectations.mark_unknown(OWNER, patch("a", k="v"))
        await asyncio.sleep(1)
        assert [call.verb for call in book.client.calls] == ["get"]
        assert book.get().data == {"k": "v"}
        assert pending_scopes(book) == frozenset()


async def test_nothing_is_made_for_an_owner_that_is_gone():
    with capture_logs() as logs:
        async with settling() as book:
            book.expectations.mark_unknown(OWNER, create("a"))
            book.expectations.remove_owner(OWNER.controller, OWNER.key)
            await asyncio.sleep(60)
            assert book.client.calls == []
            assert book.entries == 0
    assert logs == []


@pytest.mark.parametrize("later", [0.5, 20])
async def test_a_write_puts_off_the_live_read_that_was_due_for_the_one_before_it(later: float):
    async with settling() as book:
        book.client.objects["a"] = child("a", 11)
        book.make("a", 10)
        await asyncio.sleep(later)
        book.expectations.confirm(OWNER, patch("a"), child("a", 11))
        await asyncio.sleep(29.8)
        assert book.client.calls == []
        await asyncio.sleep(0.4)
        assert book.client.verbs("get") == ["a"]


async def test_nothing_is_repeated_for_an_owner_that_is_gone_though_another_one_waits():
    async with settling() as book:
        other = Owner("uid-other", "default/other", OWNER.controller)
        book.expectations.add_owner(other)
        book.expectations.record_lookup(other, target("a"), None)
        book.expectations.mark_unknown(OWNER, create("a"))
        book.expectations.remove_owner(OWNER.controller, OWNER.key)
        with capture_logs() as logs:
            await asyncio.sleep(1)
        assert (book.client.verbs("create"), book.client.verbs("get")) == ([], ["a"])
        assert logs == []


async def test_what_is_known_meanwhile_is_not_tried_again():
    async with settling() as book:
        book.make("a", 10)
        book.show(child("a", 10))
        assert book.entries == 0
        with capture_logs() as logs:
            await asyncio.sleep(60)
        assert (logs, book.client.calls) == ([], [])


async def test_what_the_store_passed_without_showing_is_asked_for_once():
    async with settling() as book:
        book.make("a", 10)
        await asyncio.sleep(1)
        assert book.client.calls == []
        book.bookmark(11)
        book.bookmark(12)
        await asyncio.sleep(1)
        assert book.client.verbs("get") == ["a"]
        assert (book.names(), book.entries) == ([], 0)
        assert book.woken == [OWNER]
        await asyncio.sleep(600)
        assert len(book.client.calls) == 1


async def test_a_cache_that_lags_is_asked_about_at_growing_distances():
    async with settling() as book:
        times: list[float] = []

        def look(call: Call) -> Any:
            times.append(round(book.loop.time()))
            return child("a", 10)

        book.client.script = look
        book.make("a", 10)
        await asyncio.sleep(2000)
        assert times == [30, 90, 210, 450, 930, 1410, 1890]
        assert book.names() == ["a"]
        book.show(child("a", 10))
        assert book.entries == 0


async def test_a_live_read_that_was_overtaken_by_a_write_counts_for_nothing():
    async with settling() as book:
        book.client.seconds = 5.0
        book.client.script = lambda _call: child("a", 10, data={"k": "old"})
        book.make("a", 10)
        book.bookmark(11)
        await asyncio.sleep(1)
        newer = child("a", 20, data={"k": "new"})
        book.expectations.confirm(OWNER, patch("a", k="new"), newer)
        await asyncio.sleep(5)
        assert book.get().data == {"k": "new"}


async def test_an_answer_not_found_is_forgotten_after_a_while_without_another_request():
    async with settling() as book:
        book.expectations.record_lookup(OWNER, target("a"), None)
        assert book.expectations.reader.looked_up_absent(CONFIG_MAPS, "default/a")
        await asyncio.sleep(29)
        assert book.expectations.reader.looked_up_absent(CONFIG_MAPS, "default/a")
        await asyncio.sleep(1.1)
        assert not book.expectations.reader.looked_up_absent(CONFIG_MAPS, "default/a")
        assert book.client.calls == []
        assert (book.entries, book.resolver._queue.statistics().delayed) == (0, 0)


async def test_a_taken_name_is_free_again_when_its_holder_has_gone():
    async with settling() as book:
        book.client.objects["a"] = child("a", 50, uid="theirs", owner="")
        book.expectations.name_conflict(OWNER, create("a"))
        await asyncio.sleep(31)
        assert book.expectations.reader.has_name_conflict(CONFIG_MAPS, "default/a")
        assert book.expectations.reader.name_conflicts(CONFIG_MAPS, OWNER.uid) == {"a"}
        del book.client.objects["a"]
        await asyncio.sleep(61)
        assert not book.expectations.reader.has_name_conflict(CONFIG_MAPS, "default/a")
        assert book.woken[-1] == OWNER


async def test_a_write_under_way_is_left_alone():
    async with settling() as book:
        book.expectations.expect(OWNER, create("a"))
        await asyncio.sleep(120)
        assert book.client.calls == []
        book.expectations.confirm(OWNER, create("a"), child("a", 10))
        book.show(child("a", 10))
        assert book.entries == 0


async def test_many_questions_are_answered_a_few_at_a_time():
    async with settling() as book:
        book.client.seconds = 0.4
        for number in range(40):
            book.make(f"a{number}", 10)
        book.bookmark(11)
        await asyncio.sleep(30)
        assert len(book.client.calls) == 40
        assert book.client.most == CONCURRENCY
        assert book.entries == 0


async def test_a_lost_create_does_not_wait_for_those_of_others_that_hang():
    """Eight at a time and ten seconds each, it would be found after two minutes."""
    async with settling() as book:

        async def hang(call: Call) -> None:
            await asyncio.sleep(10.0 if call.name.startswith("sick") else 0.01)

        book.client.before = hang
        for number in range(100):
            sick = Owner(f"uid-{number}", f"default/{number}", OWNER.controller)
            book.expectations.add_owner(sick)
            write = create(f"sick-{number}", owner=sick.uid)
            book.expectations.mark_unknown(sick, write)
        await asyncio.sleep(7)
        book.expectations.mark_unknown(OWNER, create("healthy"))
        await asyncio.sleep(2)
        assert pending_scopes(book) == frozenset()


async def test_EXP12_for_an_owner_that_is_going_nothing_is_made():
    async with settling() as book:
        book.expectations.add_owner(dataclasses.replace(OWNER, terminating=True))
        book.expectations.mark_unknown(OWNER, create("a"))
        await asyncio.sleep(1)
        assert [call.verb for call in book.client.calls] == ["get"]
        assert (book.names(), pending_scopes(book)) == ([], frozenset())


@pytest.mark.parametrize("known", [True, False])
async def test_the_distances_between_attempts_double_up_to_three_quarters_of_a_minute(known: bool):
    async with settling() as book:
        times: list[float] = []

        def lose(_call: Call) -> Any:
            times.append(book.loop.time())
            raise OutcomeUnknown("reset")

        book.client.script = lose
        if known:
            book.make("a", 10)
            book.bookmark(11)
        else:
            book.expectations.mark_unknown(OWNER, create("a"))
        await asyncio.sleep(200)
        gaps = [b - a for a, b in itertools.pairwise(times)]
        wanted = [0.5, 1, 2, 4, 8, 16, 32, 45]
        assert len(gaps) >= len(wanted)
        assert all(each <= gap <= 1.2 * each + 0.1 for each, gap in zip(wanted, gaps, strict=False))


async def test_a_change_that_is_presumed_to_have_failed_shortens_no_back_off():
    async with settling() as book:
        times: list[float] = []

        def answer(call: Call) -> Any:
            if call.name == "a":
                return child("a", 9)
            times.append(book.loop.time())
            raise OutcomeUnknown("reset")

        book.client.script = answer
        book.show(child("a", 9))
        refused = Failure(patch("a"), "InternalError", "no", unknown=True)
        book.expectations.mark_unknown(OWNER, create("b"))
        for _ in range(8):
            book.expectations.expect(OWNER, patch("a"))
            book.expectations.mark_unknown(OWNER, patch("a"), refused)
            await asyncio.sleep(35)
        assert len(times) <= 14


async def test_a_change_that_fails_again_while_nothing_can_be_read_shortens_no_back_off():
    async with settling() as book:
        book.client.script = unreachable
        for _ in range(60):
            book.expectations.mark_unknown(OWNER, patch("a"))
            await asyncio.sleep(10)
        reads = len(book.client.verbs("get"))
        book.client.script = lambda _call: child("a", 10)
        await asyncio.sleep(55)
        assert pending_scopes(book) == frozenset()
    assert reads <= 20


async def test_a_create_that_succeeds_ends_the_back_off_that_an_outage_has_left():
    async with settling() as book:
        book.client.script = unreachable
        for number in range(8):
            book.expectations.mark_unknown(OWNER, create(f"c-{number}"))
        await asyncio.sleep(600)
        answers = iter([False, True])

        def lose_the_second(call: Call) -> Any:
            return unreachable(call) if next(answers, False) else book.client.serve(call)

        book.client.script = lose_the_second
        await asyncio.sleep(60)
        assert pending_scopes(book) == frozenset()


async def test_reads_that_succeed_end_no_back_off_of_creates():
    async with settling() as book:
        book.client.script = lambda call: unreachable(call) if call.verb == "create" else None
        book.expectations.mark_unknown(OWNER, create("c"))
        for number in range(20):
            await asyncio.sleep(15)
            book.expectations.mark_unknown(OWNER, patch(f"p-{number}"))
        assert len(book.client.verbs("get")) > 5
        assert len(book.client.verbs("create")) <= 20


async def test_a_read_in_place_of_a_create_counts_as_a_read():
    async with settling() as book:
        book.expectations.add_owner(dataclasses.replace(OWNER, terminating=True))
        book.client.script = unreachable
        for number in range(2):
            book.expectations.mark_unknown(OWNER, create(f"c-{number}"))
        await asyncio.sleep(100)
        turns = book.resolver._turns._owners[OWNER.uid]
        assert turns.failures > 5
        assert not turns.writes_fail


async def test_another_owners_write_of_an_object_that_waits_for_its_turn_is_resolved_at_once():
    def fail_creates(call: Call) -> Any:
        return unreachable(call) if call.verb == "create" else book.client.serve(call)

    async with settling() as book:
        other = Owner("uid-other", "default/other", OWNER.controller)
        book.expectations.add_owner(other)
        book.client.objects["p"] = child("p", 10)
        book.show(child("p", 10))
        book.client.script = fail_creates
        for number in range(20):
            book.expectations.mark_unknown(OWNER, create(f"c-{number}"))
        book.expectations.mark_unknown(OWNER, patch("p"))
        await asyncio.sleep(300)
        book.expectations.expect(other, patch("p"))
        book.expectations.mark_unknown(other, patch("p"))
        await asyncio.sleep(1)
        assert book.expectations.reader.pending_scopes(other.uid) == frozenset()


async def test_after_a_success_the_back_off_begins_anew():
    async with settling() as book:
        times: list[float] = []

        def lose(_call: Call) -> Any:
            times.append(book.loop.time())
            raise OutcomeUnknown("reset")

        book.client.script = lose
        book.expectations.mark_unknown(OWNER, patch("a"))
        await asyncio.sleep(60)
        book.client.script = lambda _call: child("a", 10)
        await asyncio.sleep(60)
        assert pending_scopes(book) == frozenset()
        book.client.script = lose
        times.clear()
        book.expectations.mark_unknown(OWNER, patch("a"))
        await asyncio.sleep(3)
        assert times[1] - times[0] < 0.7


async def test_after_a_live_read_its_back_off_begins_anew():
    async with settling() as book:
        times: list[float] = []

        def lose(_call: Call) -> Any:
            times.append(book.loop.time())
            raise OutcomeUnknown("reset")

        book.client.script = lose
        book.make("a", 10)
        book.bookmark(11)
        await asyncio.sleep(60)
        book.client.script = lambda _call: child("a", 10)
        await asyncio.sleep(60)
        book.client.script = lose
        times.clear()
        await asyncio.sleep(40)
        assert times[1] - times[0] < 0.7


async def test_a_live_read_that_fails_does_not_hold_those_of_other_objects():
    async with settling() as book:
        book.client.script = lambda call: unreachable(call) if call.name == "a" else None
        for name in ("a", "b", "c"):
            book.make(name, 10)
        book.bookmark(11)
        await asyncio.sleep(0.1)
        assert book.names() == ["a"]


async def test_an_outcome_that_became_known_otherwise_leaves_its_turn_to_the_next_at_once():
    async with settling() as book:
        book.client.script = unreachable
        for name in ("a", "b", "c"):
            book.expectations.mark_unknown(OWNER, create(name))
        await asyncio.sleep(0.2)
        assert book.client.verbs("create") == ["a"]
        book.show(child("b", 2))
        await asyncio.sleep(0.5)
        assert book.client.verbs("create") == ["a", "c"]


async def test_what_the_resolver_does_is_logged():
    error = RecursionError("a cannot be decoded")

    def fail(call: Call) -> Any:
        if call.verb == "create":
            raise status_error(403, "Forbidden", message="no creating")
        if book.loop.time() < 0.4:
            raise OutcomeUnknown("reset")
        if book.loop.time() < 0.8:
            raise error
        return None

    with capture_logs() as logs:
        async with settling() as book:
            book.client.script = fail
            book.expectations.mark_unknown(OWNER, create("a"))
            await asyncio.sleep(0.9)
    about = {"target": "configmaps default/a"}
    repeated = {"event": "write.repeated", "outcome": "failed", "log_level": "info", **about}
    assert logs == [
        repeated,
        {"event": "live_read.failed", "error": "reset", "log_level": "info", **about},
        repeated,
        {"event": "resolver.failed", "exc_info": error, "log_level": "error", **about},
    ]


async def test_live_reads_are_sent_in_the_flow_of_the_owner():
    async with settling() as book:
        flows: list[str] = []

        def for_flow(flow: str, on_silence: Any = None) -> ScriptedClient:
            assert on_silence is None
            flows.append(flow)
            return book.client

        async def get(*where: Any) -> None:
            asked.append(where)
            raise status_error(404, "NotFound")

        asked: list[tuple[Any, ...]] = []
        book.client.for_flow = for_flow  # type: ignore[method-assign]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(book.client, "get", get)
            book.expectations.mark_unknown(OWNER, patch("a"))
            await asyncio.sleep(1)
        assert (flows, asked) == ([OWNER.uid], [(CONFIG_MAPS, "default", "a")])
        flows.clear()
        book.show(child("b", 10))
        book.remove(child("b", 10), 11)
        await asyncio.sleep(1)
        assert (flows, book.client.verbs("get")) == (["resolver"], ["b"])


async def test_the_tasks_of_the_resolver_are_named():
    async with settling() as book:
        book.expectations.mark_unknown(OWNER, patch("a"))
        await asyncio.sleep(0.001)
        assert "resolver" in {task.get_name() for task in asyncio.all_tasks()}


async def test_a_read_of_an_object_that_was_forgotten_meanwhile_counts_for_nothing():
    async with settling() as book:
        book.client.seconds = 5.0
        book.client.script = lambda _call: child("a", 20)
        book.expectations.mark_unknown(OWNER, patch("a"))
        await asyncio.sleep(1)
        book.expectations.remove_owner(OWNER.controller, OWNER.key)
        book.expectations.add_owner(OWNER)
        book.make("a", 30)
        await asyncio.sleep(5)
        shown = book.get()
        assert shown is not None
        assert shown.metadata.resource_version == "30"


async def test_EXP45_an_answer_to_a_live_read_shows_that_the_server_went_back():
    async with settling() as book:
        signs: list[str] = []
        book.expectations.on_rewound = signs.append
        book.show(child("a", 50))
        book.bookmark(100)
        book.client.script = lambda _call: child("a", 40)
        book.expectations.mark_unknown(OWNER, patch("a"))
        await asyncio.sleep(1)
        assert signs == ["configmaps default/a is at 40, the store was at 100 before"]


async def test_EXP45_a_lost_write_is_repeated_when_all_caches_agree():
    async with settling() as book:
        book.expectations.held = True
        book.expectations.mark_unknown(OWNER, create("a"))
        await asyncio.sleep(30)
        assert book.client.calls == []
        assert pending_scopes(book) != frozenset()
        book.expectations.held = False
        await asyncio.sleep(60)
        assert book.client.verbs("create") == ["a"]


async def test_a_write_that_is_lost_while_it_is_read_live_is_resolved_too():
    async with settling() as book:
        book.client.seconds = 5.0
        book.client.objects["a"] = child("a", 10)
        book.make("a", 10)
        book.bookmark(11)
        await asyncio.sleep(1)
        book.expectations.mark_unknown(OWNER, patch("a"))
        await asyncio.sleep(9.5)
        assert book.client.verbs("get") == ["a", "a"]
        assert pending_scopes(book) == frozenset()
