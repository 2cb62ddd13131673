from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workqueue.waiting import KeyHeap

KEYS = st.integers(0, 9)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("push"), KEYS, st.integers(0, 5)),
        st.tuples(st.just("discard"), KEYS, st.none()),
        st.tuples(st.just("pop"), st.none(), st.none()),
    ),
    max_size=60,
)


@settings(derandomize=True)
@given(CHANGES)
def test_keys_come_out_by_rank_and_then_by_push(changes):
    heap: KeyHeap[int] = KeyHeap()
    model: list[tuple[int, int, int]] = []
    for number, (change, key, rank) in enumerate(changes):
        if change == "pop":
            if model:
                assert heap.lowest() == min(model)[0]
                assert heap.pop() == min(model)[2]
                model.remove(min(model))
            continue
        model = [entry for entry in model if entry[2] != key]
        if change == "push":
            heap.push(key, rank)
            model.append((rank, number, key))
            assert heap.rank(key) == rank
        else:
            heap.discard(key)
        assert len(heap) == len(model)
        assert all((key in heap) == any(entry[2] == key for entry in model) for key in range(10))
    assert [heap.pop() for _ in range(len(heap))] == [key for _, _, key in sorted(model)]


def test_a_key_that_is_moved_for_ever_takes_no_more_memory():
    heap: KeyHeap[str] = KeyHeap()
    for rank in range(10_000):
        heap.push("restless", rank)
        heap.push("far away", 1_000_000 - rank)
        heap.discard("far away")
        assert len(heap._heap) <= 2 * len(heap) + 64


def test_a_heap_is_rebuilt_when_more_than_half_of_it_and_some_more_entries_are_outdated():
    heap: KeyHeap[int] = KeyHeap()
    for key in range(100):
        heap.push(key, 0)
    sizes: list[int] = []
    for rank in range(200):
        heap.push(99, rank)
        sizes.append(len(heap._heap))
    assert max(sizes) == 2 * 100 + 64
    assert sizes[sizes.index(max(sizes)) + 1] == 100


def test_the_order_outlives_rebuilds():
    heap: KeyHeap[int] = KeyHeap()
    rng = random.Random(1)
    ranks: dict[int, float] = {}
    for _ in range(5_000):
        key = rng.randrange(200)
        ranks[key] = rng.random()
        heap.push(key, ranks[key])
        assert heap.lowest() == min(ranks.values())
    assert [heap.pop() for _ in range(len(heap))] == sorted(ranks, key=ranks.__getitem__)


def test_keys_need_no_order_of_their_own():
    heap: KeyHeap[object] = KeyHeap()
    first, second = object(), object()
    heap.push(first, 1.0)
    heap.push(second, 1.0)
    assert [heap.pop(), heap.pop()] == [first, second]


def test_an_empty_heap_has_no_head():
    heap: KeyHeap[str] = KeyHeap()
    heap.push("a", 1.0)
    heap.discard("a")
    assert not heap
    with pytest.raises(IndexError):
        heap.lowest()
    with pytest.raises(IndexError):
        heap.pop()
    with pytest.raises(KeyError):
        heap.rank("a")
