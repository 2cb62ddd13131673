"""Equal parts of different objects are shared."""

from __future__ import annotations

import json

import msgspec
import pytest

from informers import Codec
from informers.codec import InternPool
from tests.informers.doubles import Thing, added, page, thing


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


def test_keys_and_values_of_maps_are_shared():
    first, second = shared_pair(labels={"app": "ray"}, notes=["x"])
    [(key, value)], [(other_key, other_value)] = first.labels.items(), second.labels.items()
    assert key is other_key
    assert value is other_value


def test_equal_tuples_are_shared_whole():
    first, second = shared_pair(parts=[{"state": "Running", "count": 3}])
    assert first.parts is second.parts


def test_unequal_tuples_share_their_parts():
    pool = InternPool()
    first = whole(parts=[{"state": "Running", "count": 3}])
    second = whole(parts=[{"state": "Running", "count": 4}])
    pool.share(first)
    pool.share(second)
    assert second.parts[0].count == 4
    assert first.parts[0].state is second.parts[0].state


def test_parts_without_a_hash_are_shared_one_by_one():
    first, second = shared_pair(boxes=[{"options": {"size": "large"}}])
    assert first.boxes[0].options["size"] is second.boxes[0].options["size"]


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
