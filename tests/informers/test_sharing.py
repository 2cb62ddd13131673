"""Equal strings of different objects become one string."""

from __future__ import annotations

import json

import msgspec

from informers import Codec
from informers.sharing import StringPool
from tests.informers.doubles import Thing, added, page, thing


class Part(msgspec.Struct, frozen=True):
    state: str = ""
    count: int = 0


class Whole(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...] = ()
    labels: dict[str, str] | None = None
    notes: tuple[str, ...] = ()


def whole(**fields) -> Whole:
    return msgspec.json.decode(json.dumps(fields).encode(), type=Whole)


def test_objects_of_one_codec_share_their_strings():
    codec = Codec(Thing)
    first = codec.event(added("a", 1, colour="crimson")).object
    second = codec.page(page([thing("b", 2, colour="crimson")], 3)).objects[0]
    assert first.colour is second.colour
    assert first.metadata.namespace is second.metadata.namespace
    assert first == codec.event(added("a", 1, colour="crimson")).object


def test_strings_in_maps_and_nested_parts_are_shared_and_nothing_else_changes():
    pool = StringPool()
    fields = {"parts": [{"state": "Running", "count": 3}], "labels": {"app": "ray"}, "notes": ["x"]}
    first, second = whole(**fields), whole(**fields)
    pool.share(first)
    pool.share(second)
    assert first == second == whole(**fields)
    assert first.parts[0].state is second.parts[0].state
    [(key, value)], [(other_key, other_value)] = first.labels.items(), second.labels.items()
    assert key is other_key
    assert value is other_value


def test_long_strings_are_not_kept():
    pool = StringPool()
    pool.share(whole(labels={"a": "x" * 65, "b": "y" * 64}))
    assert "x" * 65 not in pool._strings
    assert "y" * 64 in pool._strings


def test_the_pool_forgets_instead_of_growing():
    pool = StringPool()
    for number in range(20_000):
        pool.share(whole(labels={"number": str(number)}))
        assert len(pool._strings) < 5000
