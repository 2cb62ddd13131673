"""Splitting of JSON that no decoder takes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informers.decoding import Unbalanced, split_json

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


@pytest.mark.parametrize("middle", [b"NaN", b"[1,]", b'"\x00\xff"', b"{]", b'"\\ud800"', b"-", b""])
def test_a_malformed_value_does_not_hide_its_neighbours(middle: bytes):
    raw = b'{"a":1,"b":%b,"c":{"d":"}"}}' % middle
    found = dict(split_json(raw))
    assert (found["a"], found["c"]) == (b"1", b'{"d":"}"}')
    assert found["b"] == middle


@pytest.mark.parametrize(
    "raw", [b"", b"1", b"null", b"{", b'{"a', b'{"a":[}', b"{}x", b"]", b'{"\\']
)
def test_what_is_not_closed_is_an_error(raw: bytes):
    with pytest.raises(Unbalanced):
        list(split_json(raw))


def test_depth_costs_no_recursion_and_no_more_than_linear_time():
    raw = b'{"a":[' * 10_000 + b"1" + b"]}" * 10_000
    [(name, inner)] = split_json(raw)
    assert name == "a"
    assert len(inner) == len(raw) - 6
    unclosed = b'{"a":"' + b'\\"' * 100_000
    with pytest.raises(Unbalanced):
        list(split_json(unclosed + b"{" * 200))
