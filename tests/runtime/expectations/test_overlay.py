"""Reads through the overlay, of store and own writes the newer, and what is known of owners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.kube.objects import ObjectMeta
from controller.kube.resources import CONFIG_MAPS, PODS, SERVICES
from controller.runtime.expectations import owners
from controller.runtime.expectations.overlay import NotCached, ObjectReference
from controller.runtime.expectations.owners import Owner, OwnerIndex, OwnerState
from controller.runtime.expectations.tracker import AwaitedRevisions
from controller.runtime.kind import LogText, Unreadable
from controller.runtime.plan import LiveList, LogTail, ReplicaMember
from informers import Store, Undecodable
from tests.runtime.kit import OWNER, Book, child, create, delete, patch


def test_index_functions_run_on_overlaid_objects_too():
    book = Book()
    book.show(child("moved", 2))
    book.show(child("stays", 3))
    book.expectations.confirm(OWNER, patch("moved"), child("moved", 10, owner="uid-else"))
    assert book.names() == ["stays"]
    assert book.names("uid-else") == ["moved"]
    book.expectations.confirm(OWNER, create("new"), child("new", 11))
    assert book.names() == ["new", "stays"]
    book.show(child("moved", 12))
    assert book.names() == ["moved", "new", "stays"], "moved back since"


def test_an_object_that_changes_its_index_twice_is_found_once():
    book = Book()
    for revision, owner in enumerate(["x", "y", "x", OWNER.uid], start=10):
        book.expectations.confirm(OWNER, patch("a"), child("a", revision, owner=owner))
    assert (book.names("x"), book.names("y"), book.names()) == ([], [], ["a"])


def test_what_a_live_read_did_not_find_is_hidden_although_the_store_shows_it():
    book = Book()
    book.show(child("a", 2))
    book.expectations.confirm_gone(OWNER, delete("a"), "uid-a")
    assert (book.get(), book.names()) == (None, [])
    book.show(child("a", 3, terminating=True))
    assert book.names() == [], "late news of its end"
    book.remove(child("a", 3, terminating=True), 4)
    assert book.entries == 0


def test_corrections_are_counted():
    book = Book()
    book.show(child("a", 2))
    book.names()
    assert book.expectations.statistics().corrections == 0
    book.unmake("a")
    book.names()
    book.get()
    assert book.expectations.statistics().corrections == 2


def test_what_nobody_watches_is_an_error_and_not_absent():
    book = Book()
    with pytest.raises(NotCached, match="pods are not watched"):
        book.expectations.reader.get(PODS, "default/a")
    with pytest.raises(NotCached, match="pods are not watched"):
        book.expectations.reader.by_index(PODS, "owner", "x")


def test_with_several_namespaces_each_is_read_from_its_own_cache_and_no_other():
    book = Book()
    reads = book.expectations.reader
    stores = {name: Store({"owner": lambda _o: ("x",)}) for name in ("one", "two")}
    for namespace, store in stores.items():
        store.replace([], "5")
        book.expectations.add_cache(PODS, namespace, store, {"owner": lambda _o: ("x",)})
    stores["one"].put(child("a", 6))
    assert reads.by_index(PODS, "owner", "x") == [child("a", 6)]
    assert reads.get(PODS, "two/a") is None
    with pytest.raises(NotCached, match="in namespace three"):
        reads.get(PODS, "three/a")


def test_what_a_cache_cannot_show_is_named_unless_it_shows_an_earlier_state():
    book = Book()
    keys = ("default/odd", "default/once-good", "else/odd")
    quarantined = {key: Undecodable(key, "u1", "4", "phase: not a str") for key in keys}
    store = Store({})
    store.replace([child("once-good", 3)], "5")
    book.expectations.add_cache(SERVICES, "", store, {}, quarantined=quarantined)
    reads = book.expectations.reader
    meta = ObjectMeta(name="odd", namespace="default", uid="u1")
    assert reads.unreadable(SERVICES, "default") == {"odd": Unreadable(meta, "phase: not a str")}
    quarantined.clear()
    assert reads.unreadable(SERVICES, "default") == {}


@given(st.data())
def test_whatever_happens_in_which_order_reads_show_the_newest_that_is_known(data):
    """A server, a store that follows it late, and expectations that hear the answers."""
    book = Book(selective=False)
    history: list[tuple[int, str, bool]] = []  # revision, name, exists
    truth: dict[str, int] = {}
    answered: dict[str, tuple[int, bool]] = {}
    shown = 0
    for revision in range(2, 2 + data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from("ab"))
        if name not in truth:
            truth[name] = revision
            history.append((revision, name, True))
            book.expectations.confirm(
                OWNER, create(name), child(name, revision, uid=f"u{revision}")
            )
            answered[name] = (revision, True)
        else:
            uid = f"u{truth.pop(name)}"
            history.append((revision, name, False))
            book.expectations.confirm_delete(OWNER, delete(name, uid=uid), uid)
            answered[name] = (revision, False)
        for _ in range(data.draw(st.integers(0, len(history) - shown))):
            at, what, exists = history[shown]
            shown += 1
            if exists:
                book.show(child(what, at, uid=f"u{at}"))
            else:
                last = book.store.get(f"default/{what}")
                assert last is not None
                book.remove(last, at)
        assert book.live() == sorted(truth), "own writes are always seen"
    while shown < len(history):
        at, what, exists = history[shown]
        shown += 1
        if exists:
            book.show(child(what, at, uid=f"u{at}"))
        else:
            book.remove(book.store.get(f"default/{what}"), at)
    assert book.names() == sorted(truth)
    assert book.entries == 0, "and nothing is left when the store has caught up"


def test_what_is_known_to_have_gone_is_not_believed_to_a_cache_that_shows_it_late():
    book = Book()
    made = book.make(revision=10)
    write = delete()
    book.expectations.expect(OWNER, write)
    book.expectations.confirm_gone(OWNER, write, made.metadata.uid)
    assert book.names() == []
    book.bookmark(5)
    book.show(made)  # the cache has got as far as its creation, not to its end
    assert book.names() == []
    assert book.get() is None
    book.remove(made, 20)
    assert book.names() == []
    assert book.entries == 0


def test_keys_are_returned_once_when_their_revision_is_reached():
    awaited = AwaitedRevisions()
    for revision, key in [("10", "c"), ("9", "a"), ("9", "b"), ("100", "d")]:
        awaited.add(PODS, "", revision, key)
    assert list(awaited.reached(PODS, "", "8")) == []
    assert list(awaited.reached(PODS, "", "9")) == ["a", "b"]
    assert list(awaited.reached(PODS, "", "99")) == ["c"]
    assert list(awaited.reached(PODS, "", "101")) == ["d"]
    assert list(awaited.reached(PODS, "", "101")) == []


def test_each_resource_and_scope_has_revisions_of_its_own():
    awaited = AwaitedRevisions()
    awaited.add(PODS, "one", "5", "a")
    assert list(awaited.reached(PODS, "two", "9")) == []
    assert list(awaited.reached(SERVICES, "one", "9")) == []
    assert list(awaited.reached(PODS, "one", "9")) == ["a"]


def test_opaque_revisions_are_never_reached():
    awaited = AwaitedRevisions()
    awaited.add(PODS, "", "opaque", "a")
    awaited.add(PODS, "", "5", "b")
    assert list(awaited.reached(PODS, "", "opaque")) == []
    assert list(awaited.reached(PODS, "", "9")) == ["b"]


def test_a_revision_may_have_more_digits_than_python_converts():
    awaited = AwaitedRevisions()
    awaited.add(PODS, "", "1" * 5000, "a")
    assert list(awaited.reached(PODS, "", "2" * 4999)) == []
    assert list(awaited.reached(PODS, "", "2" * 5000)) == ["a"]


A = ObjectReference(CONFIG_MAPS, "default/a")
FIRST = Owner("uid-1", "default/f", "widgets")
OTHER = Owner("uid-1", "default/f", "gadgets")
NAMESAKE = Owner("uid-2", "default/f", "widgets")


def with_expectation(index: OwnerIndex, uid: str = "uid-1") -> OwnerState:
    state = index.get(uid)
    assert state is not None
    state.expectations[A] = None
    return state


def test_the_newest_revision_of_each_resource_is_kept():
    state = OwnerState("default")
    assert state.observe_revision(PODS, "9") == "9"
    assert state.observe_revision(PODS, "10") == "10"
    assert state.observe_revision(PODS, "9") == "10"
    assert state.observe_revision(SERVICES, "3") == "3"
    assert state.revisions == {PODS: "10", SERVICES: "3"}


def test_few_refuted_changes_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owners, "MAX_REFUTED", 2)
    state = OwnerState("default")
    for name, revision in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")]:
        state.refute(ObjectReference(CONFIG_MAPS, f"default/{name}"), revision)
    assert [*state.refuted.items()] == [
        (A, "3"),
        (ObjectReference(CONFIG_MAPS, "default/c"), "4"),
    ]


def test_the_objects_that_were_disowned_last_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owners, "MAX_DISOWNED", 2)
    state = OwnerState("default")
    for name in ("b", "a", "b", "c"):
        state.disown(ObjectReference(CONFIG_MAPS, f"default/{name}"))
    assert [each.name for each in state.disowned] == ["b", "c"]


def test_a_create_outdates_live_lists_of_its_resource_only():
    state = OwnerState("default")
    pods, services = LiveList(PODS, "default", "a=b"), LiveList(SERVICES, "default", "a=b")
    state.lists = {pods, services}
    state.will_create(PODS)
    assert state.lists == {services}


def test_the_newest_logs_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owners, "MAX_LOG_TAILS", 2)
    state = OwnerState("default")
    tails = [LogTail("default", "a=b", container) for container in "abc"]
    for tail in tails:
        state.keep_log(tail, LogText(tail.container))
    assert state.logs == {tails[1]: LogText("b"), tails[2]: LogText("c")}


def test_members_are_counted_until_their_replica_is_complete():
    state = OwnerState("default")
    for position, members in [(0, {"r": 1}), (1, {"r": 2}), (2, {})]:
        state.record_member(ReplicaMember("r", position, 3))
        assert state.incomplete_replicas == members
    state.record_member(ReplicaMember("alone", 0, 1))
    assert state.incomplete_replicas == {}


def test_the_replicas_that_grew_last_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owners, "MAX_INCOMPLETE_REPLICAS", 2)
    state = OwnerState("default")
    for replica, position in [("a", 0), ("b", 0), ("a", 1), ("c", 0)]:
        state.record_member(ReplicaMember(replica, position, 9))
    assert state.incomplete_replicas == {"a": 2, "c": 1}


def test_a_namesake_releases_what_was_expected_for_the_one_before():
    index = OwnerIndex()
    assert index.add(FIRST) == []
    with_expectation(index)
    assert index.add(FIRST) == [], "the same once more"
    assert index.add(NAMESAKE) == [A]
    assert index.get("uid-1") is None
    assert index.find(["uid-1", "uid-2"]) == [index.get("uid-2")]
    assert index.add(FIRST) == []
    assert [state.owners for state in index.all()] == [{"widgets": FIRST}]


def test_an_owner_stays_while_another_controller_has_it():
    index = OwnerIndex()
    index.add(FIRST)
    index.add(OTHER)
    state = with_expectation(index)
    assert index.remove("widgets", "default/f") == []
    assert index.remove("widgets", "default/f") == [], "it is gone already"
    assert state.owners == {"gadgets": OTHER}
    assert index.remove("gadgets", "default/else") == []
    assert index.remove("gadgets", "default/f") == [A]
    assert list(index.all()) == []


def test_an_owner_is_known_in_its_namespace_and_by_its_latest_state():
    index = OwnerIndex()
    index.add(FIRST)
    ending = Owner("uid-1", "default/f", "widgets", terminating=True)
    index.add(ending)
    state = index.get("uid-1")
    assert state is not None
    assert (state.namespace, state.owners) == ("default", {"widgets": ending})
    assert Owner("uid-3", "cluster-wide", "widgets").namespace == ""
