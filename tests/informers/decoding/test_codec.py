"""Decoding of bytes into lines, objects and events, whose equal parts are shared."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import (
    Codec,
    Expired,
    Failed,
    InternalError,
    Malformed,
    ResourceVersionTooLarge,
    Throttled,
)
from informers.codec import InternPool
from informers.decoding import LineSplitter, Unbalanced, split_json
from informers.store import Bookmark, Ignored, Removed, Undecodable, Upserted
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


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def plain(fields: bytes, *, name: bytes = b"a") -> bytes:
    metadata = b'"name":"%b","namespace":"ns","uid":"u","resourceVersion":"7"' % name
    return b'{"metadata":{%b,"labels":{"l":"v"}}%b}' % (metadata, fields and b"," + fields)


def listing(*items: bytes) -> bytes:
    return b'{"items":[%b],"kind":"ThingList","metadata":{"resourceVersion":"9"}}' % b",".join(
        items
    )


A = Thing(Meta("a", "ns", "uid-a", "5"), "red")
TOO_LARGE = "Too large resource version: 7, current: 5"


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


OF_NS = Codec(Thing, kind="Thing", namespace="ns")
NAMESPACED = Codec(Thing, namespaced=True)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("fields", [{}, {"size": "large"}], ids=["fits", "does not fit"])
@pytest.mark.parametrize("version", [{}, {"apiVersion": "v1"}, {"spec": {"kind": "Thing"}}])
@pytest.mark.parametrize("compact", [True, False])
def test_an_event_of_another_kind_is_ignored(kind, fields, version, compact: bool):
    pod = version | thing("a", 5, **fields) | {"kind": "Pod"}
    separators = (",", ":") if compact else None
    line = json.dumps({"type": kind, "object": pod}, separators=separators).encode()
    assert OF_NS.event(line) == Ignored("an object of kind Pod")
    assert not isinstance(CODEC.event(line), Ignored)


@pytest.mark.parametrize("kind", ["Thing", None, 5])
def test_an_event_of_the_kind_or_without_one_counts(kind):
    line = event("ADDED", thing("a", 5, colour="red") | {"kind": kind})
    assert OF_NS.event(line) == Upserted(A)


@pytest.mark.parametrize("fields", [{}, {"size": "large"}], ids=["fits", "does not fit"])
@pytest.mark.parametrize(
    ("codec", "namespace", "said"),
    [(OF_NS, "other", "other"), (OF_NS, "", "(none)"), (NAMESPACED, "", "(none)")],
)
def test_an_event_of_another_namespace_is_ignored(fields, codec, namespace: str, said: str):
    obj = thing("a", 5, **fields)
    obj["metadata"]["namespace"] = namespace
    assert codec.event(event("DELETED", obj)) == Ignored(f"an object of namespace {said}")


def test_errors_and_bookmarks_may_be_of_any_kind():
    marker = {"kind": "Pod", "metadata": {"resourceVersion": "7"}}
    assert OF_NS.event(event("BOOKMARK", marker)) == Bookmark("7")
    with pytest.raises(Expired):
        OF_NS.event(status(410, "Expired"))


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
        (status(0, "Gone"), Expired),
        (status(504, causes=[{"reason": "ResourceVersionTooLarge"}]), ResourceVersionTooLarge),
        (status(504, causes=[{"message": TOO_LARGE}]), ResourceVersionTooLarge),
        (status(504, "Timeout", TOO_LARGE), ResourceVersionTooLarge),
        (status(504, "Timeout", causes=[{"reason": "Other", "message": "slow"}]), Failed),
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


class Plain(msgspec.Struct, frozen=True, rename="camel"):
    """A thing with fields of plain data."""

    metadata: Meta = Meta()
    spec: Any = None
    other: Any = None


PLAIN = Codec(Plain)
NESTED = "nested too deeply, at most 100 levels are possible"
ODD = {
    "101 levels": (nested(101), f"spec: {NESTED}"),
    "600 levels": (nested(600), f"spec: {NESTED}"),
    "5,000 levels": (nested(5000), NESTED),
    "a number of 5,000 digits": (b'{"a":[0,{"b":%b}]}' % (b"9" * 5000), "spec[...]"),
    "a number without a float": (b'{"a":1e999}', "spec[...]: Number out of range"),
    "half a surrogate pair": (b'{"a":"\\ud800"}', ""),
    "no number": (b'{"a":NaN}', "JSON is malformed"),
    "a control character": (b'{"a":"\x01"}', "JSON is malformed"),
    "a comma too many": (b'{"a":1,}', "JSON is malformed"),
    "101 lists": (b"[" * 101 + b"]" * 101, f"spec: {NESTED}"),
}


@pytest.mark.parametrize(("spec", "reason"), ODD.values(), ids=ODD)
def test_whatever_an_object_holds_costs_only_itself(spec: bytes, reason: str):
    raw = plain(b'"spec":%b,"other":{"lost":1}' % spec)
    decoded = PLAIN.event(b'{"type":"MODIFIED","object":%b}' % raw)
    assert isinstance(decoded, Undecodable)
    assert (decoded.key, decoded.uid, decoded.revision) == ("ns/a", "u", "7")
    assert decoded.metadata == Meta("a", "ns", "u", "7", {"l": "v"})
    assert decoded.reason.startswith(reason)

    listed = PLAIN.page(listing(plain(b'"spec":{}', name=b"b"), raw, plain(b"", name=b"c")))
    assert [obj.metadata.name for obj in listed.objects] == ["b", "c"]
    assert listed.undecodable == (decoded,)

    deleted = PLAIN.event(b'{"type":"DELETED","object":%b}' % raw)
    assert isinstance(deleted, Undecodable)
    assert deleted.removed


class Inner(msgspec.Struct, frozen=True):
    config: Any = None


class Outer(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    inner: Inner = Inner()


def test_plain_data_deep_inside_of_a_field_are_not_shared_but_taken():
    raw = plain(b'"inner":{"config":%b}' % nested(600))
    decoded = Codec(Outer).event(b'{"type":"ADDED","object":%b}' % raw)
    assert isinstance(decoded, Upserted)
    assert decoded.object.metadata.name == "a"


FAULT = b'"fault":NaN'  # in no field of ours, but no decoder takes it


@pytest.mark.parametrize(("kind", "change"), [("ADDED", Upserted), ("DELETED", Removed)])
def test_a_fault_beside_the_object_of_an_event_does_not_matter(kind: str, change: type):
    raw = plain(b'"colour":"red"')
    line = b'{"type":"%b",%b,"object":%b}' % (kind.encode(), FAULT, raw)
    assert CODEC.event(line) == change(Thing(Meta("a", "ns", "u", "7", {"l": "v"}), "red"))


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b'"metadata":{"resourceVersion":"9"}', "asked for a list, got an object without a kind"),
        (b'"kind":"ThingList"', "a list without a resource version"),
    ],
)
def test_a_list_with_a_fault_needs_its_kind_and_revision_too(head: bytes, text: str):
    with pytest.raises(Malformed) as raised:
        CODEC.page(b"{%b,%b}" % (head, FAULT))
    assert str(raised.value) == text


def test_a_hundred_levels_are_decoded():
    decoded = PLAIN.event(b'{"type":"ADDED","object":%b}' % plain(b'"spec":%b' % nested(100)))
    assert isinstance(decoded, Upserted)


def test_an_item_that_cannot_be_named_is_told_with_the_reason():
    truncated = "Input data was truncated (a string or a bracket is not closed)"
    assert PLAIN.item(b"{") == Undecodable("", "", "", truncated)
    assert PLAIN.item(b'{"metadata":{}}') == Undecodable("", "", "", "an object without a name")


def test_bytes_that_are_not_utf8_are_replaced_as_in_go():
    raw = plain(b'"spec":{"a":"\xff"}')
    for decoded in (
        PLAIN.item(raw),
        PLAIN.page(listing(raw)).objects[0],
        PLAIN.event(b'{"type":"ADDED","object":%b}' % raw).object,
    ):
        assert decoded.spec == {"a": "\ufffd"}


def test_an_object_whose_metadata_do_not_fit_is_named_all_the_same():
    raw = b'{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"7","labels":[]}}'
    reason = "metadata.labels: Expected `object | null`, got `array`"
    meta = Meta("a", "ns", "u", "7")
    assert CODEC.item(raw) == Undecodable("ns/a", "u", "7", reason, metadata=meta)


def test_field_and_problem_are_told_as_far_as_the_decoder_names_them():
    odd = CODEC.item(plain(b'"size":"large"'))
    assert isinstance(odd, Undecodable)
    assert odd.reason == "size: Expected `int`, got `str`"


@settings(max_examples=50)
@given(st.binary(max_size=40))
def test_whatever_bytes_an_item_has_its_neighbours_are_decoded(noise: bytes):
    """If they are not decoded, then because nobody can tell where the item ends."""
    body = listing(plain(b"", name=b"b"), plain(b'"spec":%b' % noise), plain(b"", name=b"c"))
    try:
        decoded = PLAIN.page(body)
    except Malformed:
        assert any(character in noise for character in b'"{}[]\\')
        return
    names = [obj.metadata.name for obj in decoded.objects]
    if not any(character in noise for character in b'"{}[],\\'):
        assert names[0] == "b"
        assert names[-1] == "c"


def test_an_event_that_is_too_deep_for_every_decoder_is_ignored_if_nobody_knows_its_type():
    found = CODEC.event(b'{"type":"ODDITY","object":%b}' % nested(5000))
    assert isinstance(found, Ignored)


def test_a_decoded_object_has_no_way_back_to_what_was_dropped():
    """Fields that the view lacks are gone: encoding one would lose them (rules of 2.4)."""
    obj = CODEC.event(added("a", 5, unknown={"deep": [1, 2]})).object
    assert "unknown" not in msgspec.structs.asdict(obj)


class Part(msgspec.Struct, frozen=True):
    state: str = ""
    count: int = 0


class Box(msgspec.Struct, frozen=True):
    options: dict[str, str] | None = None


class Whole(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...] = ()
    boxes: tuple[Box, ...] = ()
    labels: dict[str, str] | None = None
    notes: tuple[str, ...] = ()


def whole(**fields) -> Whole:
    return msgspec.json.decode(json.dumps(fields).encode(), type=Whole)


def shared_pair(**fields) -> tuple[Whole, Whole]:
    pool = InternPool()
    pair = whole(**fields), whole(**fields)
    for each in pair:
        pool.share(each)
    assert pair[0] == pair[1] == whole(**fields)
    return pair


def test_objects_of_one_codec_share_their_strings():
    codec = Codec(Thing)
    first = codec.event(added("a", 1, colour="crimson")).object
    second = codec.page(page([thing("b", 2, colour="crimson")], 3)).objects[0]
    assert first.colour is second.colour
    assert first.metadata.namespace is second.metadata.namespace


def test_equal_tuples_are_shared_whole():
    first, second = shared_pair(parts=[{"state": "Running", "count": 3}])
    assert first.parts is second.parts


class Rules(msgspec.Struct, frozen=True):
    rules: tuple[Inner, ...] = ()
    inner: Inner = Inner()


def test_a_number_that_becomes_a_truth_value_is_a_change_in_every_part():
    pool, before, after = (
        InternPool(),
        *(
            msgspec.convert({"rules": [{"config": one}], "inner": {"config": one}}, Rules)
            for one in ({"x": 1}, {"x": True})
        ),
    )
    pool.share(before)
    pool.share(after, before)
    assert after.rules[0].config["x"] is after.inner.config["x"] is True


class Tree(msgspec.Struct, frozen=True):
    name: str = ""
    below: tuple[Tree, ...] = ()


def test_parts_may_hold_parts_of_their_own_type():
    pool = InternPool()
    before, after = (msgspec.convert({"below": [{"name": "a"}]}, Tree) for _ in range(2))
    pool.share(before)
    pool.share(after, before)
    assert after.below is before.below


def test_the_pool_forgets_instead_of_growing():
    pool = InternPool()
    for number in range(20_000):
        pool.share(whole(labels={"number": str(number)}))
        assert len(pool._parts) < 5000


@pytest.mark.parametrize(("parts", "kept"), [(4096, True), (4097, False)])
def test_the_pool_forgets_once_it_has_more_than_its_limit(parts: int, *, kept: bool):
    pool = InternPool()
    pool._parts.update(dict.fromkeys(range(parts)))
    pool.share(whole())
    assert (0 in pool._parts) is kept


MIB = 1024 * 1024


def split(chunks: list[bytes], limit: int = 64 * MIB) -> tuple[list[bytes], bytes]:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines, splitter.tail()


@given(st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"."))), st.data())
def test_lines_come_out_whole_wherever_the_chunks_are_cut(lines, data):
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    assert split(chunks) == ([line for line in lines if line], b"")


def test_nine_mebibytes_cut_at_every_byte_take_linear_time():
    def seconds(size: int) -> float:
        splitter = LineSplitter(64 * MIB)
        line = bytes(size)
        began = time.process_time()
        for n in range(0, size, 64):
            splitter.feed(line[n : n + 64])
        assert splitter.feed(b"\n") == [line]
        return time.process_time() - began

    small = min(seconds(MIB) for _ in range(3))
    assert seconds(9 * MIB) < 40 * small


def test_a_last_line_without_its_end_is_the_tail():
    assert split([b"one\ntw", b"o"]) == ([b"one"], b"two")


@pytest.mark.parametrize(
    "chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"ok\n" + b"x" * 11 + b"\n"]]
)
def test_a_line_beyond_the_limit_is_refused_before_it_fills_memory(chunks):
    with pytest.raises(Malformed, match=r"^a line of more than 10 bytes$"):
        split(chunks, limit=10)


TEXT = st.text('{}[]",:\\\né ', max_size=5)
SCALAR = st.sampled_from([None, True, 1, -2.5]) | TEXT
JSON = SCALAR | st.lists(SCALAR, max_size=3) | st.dictionaries(TEXT, SCALAR, max_size=3)


@settings(max_examples=50)
@given(st.dictionaries(TEXT, JSON, max_size=3), st.sampled_from([None, 1]))
def test_members_are_the_same_as_a_decoder_finds(value: dict[str, object], indent: int | None):
    raw = json.dumps(value, indent=indent)
    found = {json.loads(f'"{name}"'): json.loads(part) for name, part in split_json(raw.encode())}
    assert found == value


@settings(max_examples=50)
@given(st.lists(JSON, max_size=3), st.sampled_from([None, 1]))
def test_elements_are_the_same_as_a_decoder_finds(value: list[object], indent: int | None):
    raw = json.dumps(value, indent=indent).encode()
    assert [json.loads(part) for _, part in split_json(raw)] == value


@pytest.mark.parametrize(
    "raw", [b"", b"1", b"null", b"{", b'{"a', b'{"a":[}', b"{}x", b"]", b'{"\\']
)
def test_what_is_not_closed_is_an_error(raw: bytes):
    with pytest.raises(Unbalanced):
        list(split_json(raw))
