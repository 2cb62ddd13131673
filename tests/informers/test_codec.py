"""Decoding of bytes into objects and events."""

from __future__ import annotations

import json

import msgspec
import pytest

from informers import Codec, Expired, Failed, InternalError, Malformed, Throttled
from informers.events import Bookmark, Ignored, Removed, Undecodable, Upserted
from tests.informers.doubles import (
    Meta,
    Thing,
    added,
    bookmark,
    deleted,
    end_bookmark,
    event,
    modified,
    page,
    status,
    thing,
)

CODEC = Codec(Thing)
A = Thing(Meta("a", "ns", "uid-a", "5"), "red")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (added("a", 5, colour="red"), Upserted(A)),
        (modified("a", 5, colour="red"), Upserted(A)),
        (deleted("a", 5, colour="red"), Removed(A)),
        (bookmark(7), Bookmark("7")),
        (bookmark(7, end="false"), Bookmark("7")),
        (end_bookmark(7), Bookmark("7", ends_initial_events=True)),
    ],
)
def test_events_become_values(line, expected):
    assert CODEC.event(line.rstrip()) == expected


def test_an_object_may_come_before_its_type():
    line = json.dumps({"object": thing("a", 5, colour="red"), "type": "ADDED"}).encode()
    assert CODEC.event(line) == Upserted(A)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_object_that_does_not_fit_is_told_by_its_identity(kind):
    odd = CODEC.event(event(kind, thing("odd", 9, size="large")))
    assert isinstance(odd, Undecodable)
    assert (odd.key, odd.uid, odd.revision) == ("ns/odd", "uid-odd", "9")
    assert odd.removed is (kind == "DELETED")
    assert "size" in odd.reason


@pytest.mark.parametrize(
    "line",
    [
        event("ODDITY", thing("a", 5)),
        event("ADDED", {"kind": "Thing"}),
        event("ADDED", {"metadata": {"name": "a"}}),
        event("DELETED", {"metadata": {"resourceVersion": "5"}}),
        event("ADDED", {"metadata": {"name": 5}}),
        event("ADDED", {"metadata": {"name": "a"}, "size": "large"}),
        event("ADDED", {"metadata": [], "size": "large"}),
        event("BOOKMARK", {"metadata": {}}),
        event("BOOKMARK", {}),
    ],
)
def test_what_cannot_be_used_is_ignored_with_a_reason(line):
    ignored = CODEC.event(line)
    assert isinstance(ignored, Ignored)
    assert ignored.reason


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (status(410, "Expired", "too old"), Expired),
        (status(410, "Gone"), Expired),
        (status(0, "Expired"), Expired),
        (status(429, "TooManyRequests", retryAfterSeconds=7), Throttled),
        (status(500, "InternalError"), InternalError),
        (status(503, "Unavailable", details=None), Failed),
        (event("ERROR", {}), Failed),
    ],
)
def test_error_events_are_raised_as_what_their_status_stands_for(line, error):
    with pytest.raises(error) as raised:
        CODEC.event(line)
    assert raised.value.retry_after == (7 if error is Throttled else 0)


@pytest.mark.parametrize("line", [b"<html>", b"{", b"[]", b'"text"', b"\xff", b'{"object": {}}'])
def test_what_is_not_an_event_is_malformed(line):
    with pytest.raises(Malformed):
        CODEC.event(line)


def test_a_page_keeps_order_and_says_how_to_go_on():
    decoded = CODEC.page(page([thing("b", 1), thing("a", 2)], 9, "more"))
    assert [obj.metadata.name for obj in decoded.objects] == ["b", "a"]
    assert (decoded.revision, decoded.continue_) == ("9", "more")


def test_a_list_without_items_is_empty():
    body = b'{"kind": "ThingList", "metadata": {"resourceVersion": "3"}, "items": null}'
    assert CODEC.page(body).objects == []


@pytest.mark.parametrize("odd", [{"size": "large"}, {"metadata": None}, {"metadata": {}}])
def test_one_object_that_does_not_fit_costs_only_itself(odd):
    items = [thing(f"t{n}", n + 1) for n in range(500)]
    items[250].update(odd)
    decoded = CODEC.page(page(items, 900))
    assert len(decoded.objects) == 499
    assert len(decoded.undecodable) == 1


def test_a_decoded_object_has_no_way_back_to_what_was_dropped():
    """Fields that the view lacks are gone: encoding one would lose them (rules of 2.4)."""
    obj = CODEC.event(added("a", 5, unknown={"deep": [1, 2]})).object
    assert "unknown" not in msgspec.structs.asdict(obj)
