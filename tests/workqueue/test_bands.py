from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workqueue.waiting import TURNS_OF_BEGUN, Bands

KEYS = st.integers(0, 9)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("push"), KEYS, st.integers(0, 5), st.booleans()),
        st.tuples(st.just("pop"), st.none(), st.none(), st.none()),
    ),
    max_size=80,
)


def filled(begun: str, rest: str) -> Bands[str]:
    bands: Bands[str] = Bands()
    for rank, key in enumerate(begun):
        bands.push(key, rank, begun=True)
    for rank, key in enumerate(rest):
        bands.push(key, rank, begun=False)
    return bands


def order(bands: Bands[str]) -> str:
    return "".join(bands.pop() for _ in range(len(bands)))


def test_begun_work_comes_first_and_each_fourth_turn_belongs_to_the_rest():
    assert order(filled("ABCDEFGH", "abcde")) == "ABCaDEFbGHcde"


def test_a_key_of_the_rest_that_comes_late_finds_no_turns_used_up():
    bands = filled("ABCDEFG", "")
    assert [bands.pop() for _ in range(3)] == ["A", "B", "C"]
    bands.push("a", 0, begun=False)
    assert order(bands) == "DEFaG"


def test_turns_are_counted_anew_when_the_rest_had_been_empty():
    bands = filled("AB", "a")
    assert [bands.pop() for _ in range(3)] == ["A", "B", "a"]
    for key in "CDEF":
        bands.push(key, 0, begun=True)
    assert bands.pop() == "C"
    bands.push("b", 0, begun=False)
    assert order(bands) == "DEFb"


def test_a_key_is_in_one_band_and_moves_between_them():
    bands = filled("A", "a")
    bands.push("a", -1, begun=True)
    assert (len(bands), "a" in bands, "b" in bands, bands.rank("a")) == (2, True, False, -1)
    bands.push("A", 7, begun=False)
    assert bands.rank("A") == 7
    assert order(bands) == "aA"


def test_no_bands_have_no_key():
    bands = filled("A", "a")
    bands.clear()
    assert (len(bands), "A" in bands, "a" in bands) == (0, False, False)
    with pytest.raises(IndexError):
        bands.pop()
    with pytest.raises(KeyError):
        bands.rank("A")


@settings(derandomize=True)
@given(CHANGES)
def test_each_band_keeps_its_order_and_waits_for_its_share_of_the_other_only(changes):
    bands: Bands[int] = Bands()
    model: dict[int, tuple[bool, int, int]] = {}
    passed = {True: 0, False: 0}  # keys of the other band, since a key of this one had its turn

    def pop() -> None:
        key = bands.pop()
        begun, *_ = entry = model.pop(key)
        assert entry == min(each for each in [*model.values(), entry] if each[0] == begun)
        others = any(each[0] != begun for each in model.values())
        passed[begun], passed[not begun] = 0, passed[not begun] + others
        assert passed[False] <= TURNS_OF_BEGUN
        assert passed[True] <= 1

    for number, (change, key, rank, begun) in enumerate(changes):
        if change == "push":
            bands.push(key, rank, begun=begun)
            model[key] = (begun, rank, number)
            assert bands.rank(key) == rank
        elif model:
            pop()
        assert len(bands) == len(model)
        assert all((key in bands) == (key in model) for key in range(10))
    while model:
        pop()
