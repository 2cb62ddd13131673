"""What stores show of an expected object: of one namespace or of all, cluster-scoped ones too."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.metadata import (
    OWNER_UID,
    index_by_owner,
    is_owned_by,
    owner_uid,
    ownership_text,
    requested_owner,
)
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import CONFIG_MAPS, PODS, Resource
from controller.runtime.failed_groups import WriteOutcome
from controller.runtime.overlay import NotCached
from controller.runtime.plan import Create, Delete, Target
from controller.runtime.writer import Writer
from informers import Store, Undecodable
from tests.runtime.kit import OWNER, Book, child, patch, status_error
from tests.runtime.recording import RecordingClient, RecordingExpectations


def test_what_leaves_the_selection_while_it_is_written_is_kept():
    book = Book()
    book.show(child("a", 2))
    book.expectations.expect(OWNER, patch("a"))
    book.remove(child("a", 2), 5)
    assert (book.names(), book.questions) == (["a"], []), "its answer is still to come"
    book.done(patch("a"), child("a", 4))
    assert book.questions == ["a"]


def test_the_end_of_a_terminating_object_counts_whatever_was_returned_since():
    book = Book()
    book.show(child("a", 2, terminating=True))
    book.expectations.confirm(OWNER, patch("a"), child("a", 10, terminating=True))
    book.store.remove("default/a", "5")
    book.expectations.observe_delete(CONFIG_MAPS, child("a", 2, terminating=True))
    assert book.names() == []


def test_a_deletion_is_answered_with_the_deleted_object():
    book = Book()
    book.show(child("a", 2))
    book.unmake("a", answer=child("a", 5, terminating=True))
    shown = book.get()
    assert shown is not None
    assert shown.metadata.resource_version == "5"
    assert book.expectations.reader.revision(CONFIG_MAPS, OWNER.uid) == "5"


def test_a_namesake_in_the_answer_to_a_deletion_is_not_shown():
    book = Book()
    book.show(child("a", 2))
    book.unmake("a", answer=child("a", 5, uid="uid-other", terminating=True))
    shown = book.get()
    assert shown is not None
    assert (shown.metadata.uid, shown.metadata.terminating) == ("uid-a", True)
    assert book.expectations.reader.revision(CONFIG_MAPS, OWNER.uid) == "2"


def test_what_no_cache_covers_is_not_expected_after_its_answer():
    book = Book()
    write = Create(Target(PODS, "default", "a", "children"), {})
    book.expectations.expect(OWNER, write)
    assert book.entries == 1
    book.expectations.confirm(OWNER, write, child("a", 10))
    assert book.entries == 0
    book.expectations.confirm_delete(OWNER, Delete(write.target, "uid-a"))
    assert book.entries == 0
    book.expectations.record_lookup(OWNER, write.target, child("a", 10))
    assert book.entries == 0


def watched(book: Book, *, quarantined: dict[str, Undecodable] | None = None) -> Store:
    store: Store = Store({})
    store.replace([], "5")
    book.expectations.overlay(PODS).add_cache("default", store, {}, quarantined=quarantined or {})
    return store


def test_what_a_cache_of_one_namespace_cannot_show_is_named():
    book = Book()
    odd = {"default/odd": Undecodable("default/odd", "u1", "4", "phase: not a str")}
    watched(book, quarantined=odd)
    assert list(book.expectations.reader.unreadable(PODS, "default")) == ["odd"]


def test_a_cluster_scoped_object_that_its_cache_cannot_show_is_named():
    book = Book()
    store: Store = Store({})
    odd = {"odd": Undecodable("odd", "u1", "4", "phase: not a str")}
    book.expectations.overlay(PODS).add_cache("", store, {}, quarantined=odd)
    assert list(book.expectations.reader.unreadable(PODS, "")) == ["odd"]


def test_nothing_is_expected_of_a_resource_that_the_server_has_no_more():
    book = Book()
    book.make("a", 10)
    book.expectations.overlay(CONFIG_MAPS).remove_caches()
    assert book.entries == 0
    assert not book.expectations.reader.serves(CONFIG_MAPS)
    with pytest.raises(NotCached, match="not watched"):
        book.get()
    book.expectations.overlay(PODS).remove_caches()


MACHINES = Resource("test.dev", "v1", "machines", "Machine", KubeObject, namespaced=False)
CREATE = Create(
    Target(MACHINES, "", "a", "machines"),
    {"metadata": {"name": "a", "labels": {OWNER_UID: OWNER.uid}}},
)
EXISTS = status_error(409, "AlreadyExists")


def machine(owner: str = OWNER.uid, revision: int = 7, namespace: str = "") -> KubeObject:
    labels = {OWNER_UID: owner} if owner else None
    version = str(revision)
    meta = ObjectMeta(
        name="a", namespace=namespace, uid="uid-a", resource_version=version, labels=labels
    )
    return KubeObject(metadata=meta)


def test_the_label_of_a_cluster_scoped_object_names_its_owner():
    assert owner_uid(machine().metadata) == OWNER.uid
    assert index_by_owner(machine()) == (OWNER.uid,)
    assert is_owned_by(machine().metadata, OWNER.uid)
    assert not is_owned_by(machine("other").metadata, OWNER.uid)
    assert ownership_text(machine("other").metadata) == "belongs to the object with uid other"


def test_the_owner_that_a_body_asks_for():
    label: dict[str, Any] = {"labels": {OWNER_UID: "u"}}
    reference = {"ownerReferences": [{"uid": "x"}, {"uid": "y", "controller": True}]}
    assert requested_owner(label, "") == "u"
    assert requested_owner(label, "default") == ""
    assert requested_owner({**label, **reference}, "") == "y"
    assert requested_owner({"labels": None, "ownerReferences": None}, "") == ""


@pytest.mark.parametrize(
    ("owner", "outcome"),
    [(OWNER.uid, WriteOutcome.DONE), ("x", WriteOutcome.NAME_CONFLICT)],
)
async def test_a_name_that_exists_is_ours_if_its_label_says_so(owner: str, outcome: WriteOutcome):
    client: Any = RecordingClient(EXISTS, machine(owner))
    expectations: Any = RecordingExpectations()
    result = await Writer(client, expectations).perform(OWNER, CREATE)
    assert result.outcome is outcome


async def test_admission_that_takes_the_label_away_blocks_the_scope():
    client: Any = RecordingClient(machine(""))
    expectations: Any = RecordingExpectations()
    await Writer(client, expectations).perform(OWNER, CREATE)
    sentence = (
        f"admission changed label {OWNER_UID} of machines.test.dev a; exempt the operator's "
        "objects from that webhook, then delete the object"
    )
    assert expectations.told[-1] == ("admission_mismatch", CREATE, sentence, True)
