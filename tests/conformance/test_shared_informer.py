"""What handlers of a shared informer hear, after upstream's tests of informers and event queues."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass

import pytest

from informers import (
    AlreadyStarted,
    Disconnected,
    Failed,
    IndexFunctionError,
    InformerStopped,
    Throttled,
    key_of,
    reflector,
)
from tests.informers.doubles import (
    EventHandler,
    FakeServer,
    Hang,
    Recorder,
    ScriptedSource,
    Thing,
    added,
    deleted,
    event,
    informer_of,
    modified,
    page,
    running,
    settle,
    status,
    thing,
)

EMPTY = page([], 1)


def keys_of(objects):
    return {key_of(obj) for obj in objects}


def names(informer):
    return sorted(obj.metadata.name for obj in informer.lister.list())


@dataclass
class Caller(EventHandler):
    act: object

    def on_add(self, obj, *, initial):
        self.act("add", obj)

    def on_update(self, old, new):
        self.act("update", new)

    def on_delete(self, obj):
        self.act("delete", obj)


async def replay(*, lists=(), watches=(), streaming=False, seconds=0, **keywords):
    """What a handler hears of a script."""
    informer = informer_of(
        ScriptedSource(lists=list(lists), watches=[*watches, [Hang]]),
        streaming=streaming,
        **keywords,
    )
    informer.add_handler(recorder := Recorder())
    async with running(informer):
        await settle()
        await asyncio.sleep(seconds)
    return recorder.calls


class TestOrder:
    async def test_everything_is_heard_in_the_order_of_arrival(self):
        script = [added(f"t{n % 5}", n) for n in range(2, 30)]
        calls = await replay(lists=[EMPTY], watches=[[*script, Hang]])
        assert [(name, revision[-1]) for _, name, *revision in calls] == [
            (f"t{n % 5}", str(n) if n > 6 else False) for n in range(2, 30)
        ]

    async def test_a_list_after_events_follows_them_and_is_not_initial(self):
        calls = await replay(
            lists=[EMPTY, page([thing("a", 2), thing("b", 5)], 6)],
            watches=[[added("a", 2), status(410)]],
            seconds=3,
        )
        assert calls == [("add", "a", "2", False), ("add", "b", "5", False)]

    async def test_a_deletion_before_a_list_that_has_the_object_again_is_heard(self):
        calls = await replay(
            lists=[page([thing("a", 1)], 1), page([thing("a", 3, uid="second")], 4)],
            watches=[[deleted("a", 2), status(410)]],
            seconds=3,
        )
        assert calls == [("add", "a", "1", True), ("delete", "a", "2"), ("add", "a", "3", False)]

    async def test_what_came_just_before_a_list_without_it_ends_with_its_latest_state(self):
        last: list[object] = []
        source = ScriptedSource(
            lists=[EMPTY, page([], 9)],
            watches=[[added("a", 2), modified("a", 3, colour="last"), status(410)], [Hang]],
        )
        informer = informer_of(source, streaming=False)
        informer.add_handler(Caller(lambda kind, obj: last.append((kind, obj))))
        async with running(informer):
            await asyncio.sleep(3)
        kind, deleted = last[-1]
        assert kind == "delete"
        assert isinstance(deleted, Thing)
        assert deleted.colour == "last"

    async def test_a_list_is_one_change_deletions_first_store_already_new(self):
        source = ScriptedSource(
            lists=[
                page([thing("a", 1), thing("b", 1), thing("c", 1), thing("d", 1)], 1),
                page([thing("new", 5), thing("c", 6), thing("b", 1)], 7),
            ],
            watches=[[status(410)], [Hang]],
        )
        informer = informer_of(source, streaming=False)
        heard: list[tuple[str, str, str, list[str]]] = []
        informer.add_handler(
            Caller(
                lambda kind, obj: heard.append(
                    (kind, key_of(obj), informer.lister.resource_version, names(informer))
                )
            )
        )
        async with running(informer):
            await asyncio.sleep(3)
        after = ("7", ["b", "c", "new"])
        assert heard[4:] == [
            ("delete", "ns/a", *after),
            ("delete", "ns/d", *after),
            ("add", "ns/new", *after),
            ("update", "ns/c", *after),
        ]

    async def test_the_end_of_an_unknown_object_is_announced(self):
        assert await replay(lists=[EMPTY], watches=[[deleted("a", 2), Hang]]) == [
            ("delete", "a", "2")
        ]

    async def test_upserts_go_by_what_is_known_not_by_the_verb(self):
        calls = await replay(lists=[EMPTY], watches=[[modified("a", 2), added("a", 3), Hang]])
        assert calls == [("add", "a", "2", False), ("update", "a", "2", "3")]

    async def test_recreated_while_disconnected_is_a_deletion_then_an_addition(self):
        script = [page([thing("a", 1, uid="first")], 1), page([thing("a", 5, uid="second")], 6)]
        heard: list[tuple[str, str]] = []

        def note(kind, obj):
            heard.append((kind, obj.metadata.uid))

        source = ScriptedSource(
            lists=script,
            watches=[[status(410)], [added("a", 7, uid="third"), deleted("a", 9, uid="fourth")]],
        )
        informer = informer_of(source, streaming=False)
        informer.add_handler(Caller(note))
        async with running(informer):
            await asyncio.sleep(3)
        assert heard == [
            ("add", "first"),
            ("delete", "first"),
            ("add", "second"),
            ("delete", "second"),
            ("add", "third"),
            ("delete", "third"),
            ("delete", "fourth"),
        ]

    async def test_big_and_small_batches_have_the_same_effect(self, monkeypatch):
        def script():
            rng = random.Random(11)
            alive: set[str] = set()
            for revision in range(2, 400):
                name = f"t{rng.randrange(8)}"
                if name in alive and rng.random() < 0.3:
                    alive.discard(name)
                    yield deleted(name, revision)
                else:
                    alive.add(name)
                    yield modified(name, revision)

        whole = b"".join(script())
        one = await replay(lists=[EMPTY], watches=[[whole, Hang]], seconds=1)
        monkeypatch.setattr(reflector, "BATCH", 1)
        tiny = await replay(lists=[EMPTY], watches=[[*script(), Hang]], seconds=1)
        assert one == tiny
        assert len(one) == 398

    async def test_the_loop_breathes_between_batches_of_one_chunk(self, monkeypatch):
        chunk = b"".join(added(f"t{n}", n) for n in range(2, 1002))
        source = ScriptedSource(lists=[EMPTY], watches=[[chunk, Hang]])
        monkeypatch.setattr(reflector, "BATCH", 100)
        informer = informer_of(source, streaming=False)
        sizes: set[int] = set()
        async with running(informer):
            while len(informer.lister.list()) < 1000:
                sizes.add(len(informer.lister.list()))
                await asyncio.sleep(0)
        assert sizes == set(range(0, 1000, 100))

    async def test_one_broken_object_does_not_lose_the_rest_of_its_batch(self):
        odd = event("MODIFIED", thing("odd", 3, size="large"))
        source = ScriptedSource(
            lists=[page([thing("odd", 1, size=1)], 1)],
            watches=[[added("a", 2) + odd + added("b", 4), Hang]],
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            assert names(informer) == ["a", "b", "odd"]
            assert informer.lister.get("ns/odd").size == 1
            assert "size" in informer.quarantined["ns/odd"].reason
            assert informer.statistics().quarantined == 1
            assert informer.lister.resource_version == "4"


class TestQuarantine:
    async def quarantined_after(self, *watch, lists=()):
        source = ScriptedSource(
            lists=[page([thing("a", 1), thing("odd", 1, size="large")], 1), *lists],
            watches=[list(watch), [Hang]],
        )
        informer = informer_of(source, streaming=False)
        informer.add_handler(recorder := Recorder())
        async with running(informer):
            await asyncio.sleep(3)
            return set(informer.quarantined), names(informer), recorder.calls

    async def test_a_listed_object_that_does_not_fit_is_named_and_left_out(self):
        assert (await self.quarantined_after())[:2] == ({"ns/odd"}, ["a"])

    async def test_it_comes_back_when_it_fits_again(self):
        found = await self.quarantined_after(modified("odd", 2, size=2), Hang)
        assert found[:2] == (set(), ["a", "odd"])

    async def test_it_is_forgotten_with_its_end(self):
        odd_end = event("DELETED", thing("odd", 2, size="large"))
        assert (await self.quarantined_after(odd_end, Hang))[:2] == (set(), ["a"])

    async def test_the_end_of_a_known_object_counts_even_if_it_does_not_fit(self):
        odd_end = event("DELETED", thing("a", 2, size="large"))
        found, left, calls = await self.quarantined_after(odd_end, Hang)
        assert (found, left) == ({"ns/odd"}, [])
        assert calls[-1] == ("delete", "a", "1")

    async def test_a_successor_that_does_not_fit_ends_its_predecessor(self):
        successor = event("ADDED", thing("a", 2, uid="second", size="large"))
        found, left, calls = await self.quarantined_after(successor, Hang)
        assert (found, left) == ({"ns/odd", "ns/a"}, [])
        assert calls[-1] == ("delete", "a", "1")

    async def test_a_relist_keeps_the_last_good_one_and_forgets_what_has_gone(self):
        relist = page([thing("a", 5, size="large")], 6)
        found, left, calls = await self.quarantined_after(status(410), lists=[relist])
        assert (found, left) == ({"ns/a"}, ["a"])
        assert calls == [("add", "a", "1", True)]

    async def test_a_relist_ends_a_predecessor_whose_successor_does_not_fit(self):
        relist = page([thing("a", 5, uid="second", size="large")], 6)
        found, left, calls = await self.quarantined_after(status(410), lists=[relist])
        assert (found, left) == ({"ns/a"}, [])
        assert calls[-1] == ("delete", "a", "1")


class TestHandlers:
    async def test_the_first_list_syncs_even_if_empty_and_handlers_have_heard_it(self):
        for items in ([], [thing("a", 1)], [thing("a", 1), thing("b", 1)]):
            informer = informer_of(ScriptedSource(lists=[page(items, 1)]), streaming=False)
            informer.add_handler(recorder := Recorder())
            async with running(informer):
                assert not informer.has_synced
                await informer.wait_for_sync()
                assert len(recorder.calls) == len(items)

    async def test_a_late_handler_hears_the_store_at_once_as_initial(self):
        informer = informer_of(ScriptedSource(lists=[page([thing("a", 1)], 1)]), streaming=False)
        async with running(informer):
            await settle()
            informer.add_handler(recorder := Recorder())
            assert recorder.calls == [("add", "a", "1", True)]

    async def test_a_late_handler_hears_the_store_then_everything_and_nothing_twice(self):
        server = FakeServer()
        server.put("a")
        informer = informer_of(server)
        async with running(informer):
            late: list[Recorder] = []
            for n in range(30):
                server.put(f"t{n}")
                informer.add_handler(recorder := Recorder())
                late.append(recorder)
                await settle(n % 7)
            server.delete("a")
            await settle()
        for recorder in late:
            heard = Counter(call[1] for call in recorder.calls)
            assert {f"t{n}" for n in range(30)} <= heard.keys()
            assert set(heard.values()) - {2} == {1}
            assert ("delete", "a", str(server.revision)) == recorder.calls[-1]

    async def test_an_exception_is_logged_with_the_handler_s_name_and_still_counts(self, caplog):
        items = [thing(f"t{n}", 1) for n in range(5)]
        source = ScriptedSource(lists=[page(items, 1)], watches=[[added("after", 2), Hang]])
        informer = informer_of(source, streaming=False)
        bad, good = Recorder(fail_on={"t3"}), Recorder()
        informer.add_handler(bad, name="clumsy")
        informer.add_handler(good)
        async with running(informer):
            await settle()
            assert bad.calls == good.calls
            assert bad.calls[-1] == ("add", "after", "2", False)
            assert informer.statistics().handler_failures == {"clumsy": 1, "Recorder": 0}
        [record] = caplog.records
        assert "clumsy" in record.getMessage()
        assert record.exc_info[0] is RuntimeError

    async def test_an_error_that_is_nobody_s_reaches_the_caller_of_run(self):
        informer = informer_of(ScriptedSource(lists=[EMPTY]), streaming=False)

        def broken(revision: str) -> None:
            raise ZeroDivisionError

        informer.on_change(lambda _changes, revision: broken(revision))
        with pytest.raises(ZeroDivisionError):
            await informer.run()


class TestRelist:
    async def test_after_a_break_only_what_really_changed_is_heard(self):
        calls = await replay(
            lists=[
                page([thing("same", 1), thing("changed", 1), thing("gone", 1)], 1),
                page([thing("same", 1), thing("changed", 5), thing("new", 6)], 7),
            ],
            watches=[[status(410)]],
            seconds=3,
        )
        assert calls[3:] == [
            ("delete", "gone", "1"),
            ("update", "changed", "1", "5"),
            ("add", "new", "6", False),
        ]

    async def test_an_unchanged_object_stays_the_same_object_over_a_relist(self):
        source = ScriptedSource(
            lists=[page([thing("a", 1)], 1), page([thing("a", 1)], 5)], watches=[[status(410)]]
        )
        informer = informer_of(source, streaming=False)
        async with running(informer):
            await settle()
            before = informer.lister.get("ns/a")
            await asyncio.sleep(3)
            assert informer.lister.resource_version == "5"
            assert informer.lister.get("ns/a") is before


class TestLife:
    async def test_indexes_serve_at_once_whenever_they_are_added(self):
        server = FakeServer()
        informer = informer_of(server, indexes={"colour": lambda obj: [obj.colour]})
        informer.add_index("early", lambda obj: [obj.metadata.name[0]])
        assert informer.lister.by_index("early", "a") == []
        server.put("apple", colour="red")
        async with running(informer):
            await informer.wait_for_sync()
            informer.add_index("late", lambda obj: [obj.colour.upper()])
            for index, value in (("early", "a"), ("late", "RED"), ("colour", "red")):
                assert keys_of(informer.lister.by_index(index, value)) == {"ns/apple"}
            server.put("apple", colour="green")
            await settle()
            assert keys_of(informer.lister.by_index("late", "RED")) == set()
            assert keys_of(informer.lister.by_index("late", "GREEN")) == {"ns/apple"}
            with pytest.raises(IndexFunctionError):
                informer.add_index("late", lambda obj: [])

    async def test_each_of_several_indexes_answers_for_itself(self):
        informer = informer_of(
            ScriptedSource(
                lists=[page([thing("a", 1, colour="red", size=1), thing("b", 1, colour="red")], 1)]
            ),
            streaming=False,
            indexes={"colour": lambda obj: [obj.colour], "size": lambda obj: [str(obj.size)]},
        )
        async with running(informer):
            await settle()
            red = keys_of(informer.lister.by_index("colour", "red"))
            assert red & keys_of(informer.lister.by_index("size", "1")) == {"ns/a"}

    async def test_the_error_hook_hears_of_lists_that_fail(self):
        errors: list[Exception] = []
        refused = Failed(403, "Forbidden", "no list for you")
        informer = informer_of(ScriptedSource(lists=[refused]), streaming=False)
        informer.on_error(errors.append)
        async with running(informer):
            await settle()
            assert errors == [refused]
            assert informer.statistics().last_error == (
                "list things in all namespaces: Failed: 403 Forbidden: no list for you"
            )
            assert informer.statistics().last_error_at == 0

    async def test_hooks_can_be_set_while_it_runs(self):
        server = FakeServer()
        informer = informer_of(server)
        async with running(informer):
            revisions: list[str] = []
            informer.on_change(lambda _changes, revision: revisions.append(revision))
            informer.on_error(lambda error: None)
            server.put("a")
            await settle()
            assert revisions[-1] == "2"

    async def test_what_changes_is_told_before_anything_else_can_see_it(self):
        server = FakeServer()
        server.put("a")
        informer = informer_of(server)
        told: list[object] = []
        informer.add_handler(lambda change: told.append(informer.resource_version))
        informer.on_change(lambda changes, revision: told.append((revision, *changes)))
        async with running(informer):
            await informer.wait_for_sync()
            server.delete("a")
            await settle()
        assert [entry if isinstance(entry, str) else entry[0] for entry in told] == list("2233")
        assert [type(change).__name__ for _, change in told[::2]] == ["Added", "Deleted"]

    async def test_its_state_can_be_told_through_its_life(self):
        informer = informer_of(ScriptedSource(lists=[Throttled(), EMPTY]), streaming=False)
        states = [informer.statistics().state]
        async with running(informer):
            await asyncio.sleep(0)
            states.append(informer.statistics().state)
            await settle()
            states.append(informer.statistics().state)
            await asyncio.sleep(2)
            states.append(informer.statistics().state)
            assert not informer.stopped
        states.append(informer.statistics().state)
        assert states == ["Stopped", "Listing", "BackingOff", "Watching", "Stopped"]
        assert informer.stopped

    async def test_after_the_end_adding_is_an_error(self):
        informer = informer_of(ScriptedSource(lists=[EMPTY]), streaming=False)
        async with running(informer):
            await settle()
        with pytest.raises(InformerStopped):
            informer.add_handler(Recorder())
        with pytest.raises(AlreadyStarted):
            await informer.run()

    async def test_a_second_run_beside_the_first_is_refused_and_does_not_disturb_it(self):
        informer = informer_of(ScriptedSource(lists=[EMPTY]), streaming=False)
        async with running(informer) as run:
            await settle()
            with pytest.raises(AlreadyStarted):
                await informer.run()
            assert not informer.stopped
            assert not run.done()

    async def test_no_task_and_no_timer_is_left_behind(self):
        informer_of(ScriptedSource())
        before = asyncio.all_tasks()
        for waits in (0, 1, 5, 200):
            informer = informer_of(ScriptedSource(lists=[EMPTY]), streaming=False)
            async with running(informer):
                await settle(waits)
            assert asyncio.all_tasks() == before

    async def test_who_waits_for_an_informer_that_ends_is_told_why(self):
        refused = Failed(403, "Forbidden")
        informer = informer_of(ScriptedSource(lists=[refused]), streaming=False)
        wait = asyncio.create_task(informer.wait_for_sync())
        async with running(informer):
            await settle()
            assert not wait.done()
        with pytest.raises(InformerStopped, match="403 Forbidden"):
            await wait

    async def test_waiting_for_sync_can_be_given_up_by_some_without_harm_to_others(self):
        informer = informer_of(ScriptedSource(lists=[EMPTY]), streaming=False)
        waits = [asyncio.create_task(informer.wait_for_sync()) for _ in range(6)]
        await settle(3)
        for wait in waits[::2]:
            wait.cancel()
        async with running(informer):
            outcomes = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes[::2]] == [asyncio.CancelledError] * 3
        assert outcomes[1::2] == [None] * 3


class History(EventHandler):
    """A handler that checks each transition: what a key can go through, one state at a time."""

    def __init__(self):
        self.known: dict[str, Thing] = {}
        self.revisions: dict[str, int] = {}

    def _newer(self, obj: Thing) -> None:
        revision = int(obj.metadata.resource_version)
        assert revision > self.revisions.get(key_of(obj), 0)
        self.revisions[key_of(obj)] = revision

    def on_add(self, obj, *, initial):
        assert key_of(obj) not in self.known
        self._newer(obj)
        self.known[key_of(obj)] = obj

    def on_update(self, old, new):
        assert self.known[key_of(new)] is old
        assert old.metadata.uid == new.metadata.uid
        if old is not new:
            self._newer(new)
        self.known[key_of(new)] = new

    def on_delete(self, obj):
        old = self.known.pop(key_of(obj))
        if obj is not old:
            assert obj.metadata.uid == old.metadata.uid
            self._newer(obj)


class World:
    """A server to which random things happen, and what it held at each of its revisions."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.server = FakeServer(streaming=rng.choice(["yes", "yes", "no"]))
        self.past: dict[int, dict[str, str]] = {}
        self._remember()

    async def step(self) -> None:
        name = f"t{self.rng.randrange(6)}"
        match self.rng.choices(range(7), weights=[20, 3, 1, 1, 3, 25, 47])[0]:
            case 0 if name in self.server.objects:
                self.server.delete(name)
            case 1:
                self.server.cut()
            case 2:
                self.server.compact()
                self.server.cut()
            case 3:
                error = self.rng.choice([Throttled(), Disconnected(), Failed(500)])
                self.server.raise_next[self.rng.choice(["list", "watch"])] = [error]
                self.server.cut()
            case 4:
                await asyncio.sleep(self.rng.random() * 30)
            case 5:
                await settle(self.rng.randrange(20))
            case _:
                self.server.put(name, colour=self.rng.choice(["red", "blue"]))
        self._remember()

    def _remember(self) -> None:
        self.past[self.server.revision] = {
            f"ns/{name}": obj["metadata"]["resourceVersion"]
            for name, obj in self.server.objects.items()
        }


class TestHistories:
    @pytest.mark.parametrize("seed", range(12))
    async def test_what_is_heard_is_a_legal_history_that_ends_in_the_truth(self, seed):
        rng = random.Random(seed)
        world = World(rng)
        informer = informer_of(world.server, indexes={"colour": lambda obj: [obj.colour]})
        history = History()
        informer.add_handler(history)
        revisions: list[int] = []

        def check(revision: str) -> None:
            """Contents first, then the revision: it is never ahead of what is in the store."""
            revisions.append(int(revision))
            stored = {key_of(obj): obj.metadata.resource_version for obj in informer.lister.list()}
            assert stored == world.past[int(revision)]

        informer.on_change(lambda _changes, revision: check(revision))
        async with running(informer):
            for _ in range(400):
                await world.step()
            await asyncio.sleep(300)
            assert informer.lister.resource_version == str(world.server.revision)
            assert history.known == {key_of(obj): obj for obj in informer.lister.list()}
            for colour in ("red", "blue"):
                expected = {key_of(o) for o in informer.lister.list() if o.colour == colour}
                assert keys_of(informer.lister.by_index("colour", colour)) == expected
        assert informer.statistics().handler_failures == {"History": 0}
        assert revisions == sorted(revisions)
        assert len(revisions) > 50

    @pytest.mark.slow
    async def test_cancelled_at_any_await_it_leaves_nothing_and_a_store_that_was_true(self):
        """The whole informer, cancelled at the n-th step of the loop, for all n."""
        reached_end = False
        for n in range(400):
            server = FakeServer()
            server.put("a")
            informer = informer_of(server)
            informer.add_handler(history := History())
            truths: dict[str, set[str]] = {"": set()}
            before = asyncio.all_tasks()
            run = asyncio.create_task(informer.run())
            for step in range(n):
                truths[str(server.revision)] = set(server.objects)
                match step:
                    case 20:
                        server.put("b")
                    case 40:
                        server.delete("a")
                    case 50:
                        server.cut()
                    case 70:
                        server.compact()
                        server.raise_next["watch"].append(Throttled())
                        server.cut()
                    case 90:
                        server.put("c")
                truths[str(server.revision)] = set(server.objects)
                await asyncio.sleep(0 if step < 100 else 0.05)
            run.cancel()
            await asyncio.wait([run])
            assert run.cancelled()
            assert asyncio.all_tasks() == before
            assert server.open_streams == 0
            held = informer.lister.resource_version
            assert set(names(informer)) == truths[held]
            assert history.known == {key_of(obj): obj for obj in informer.lister.list()}
            reached_end = set(names(informer)) == {"b", "c"}
        assert reached_end


async def test_the_ladder_of_one_informer_does_not_touch_another():
    """A ladder is state: two informers climb on their own."""
    failing = ScriptedSource(lists=[Failed(500)] * 5)
    async with running(informer_of(failing, streaming=False)):
        await asyncio.sleep(20)
        other = ScriptedSource(lists=[Failed(500), EMPTY])
        async with running(informer_of(other, streaming=False)):
            await asyncio.sleep(2)
            first, second = other.times("list")
            assert 0.8 <= second - first < 1.6
