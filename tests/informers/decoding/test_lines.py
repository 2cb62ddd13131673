"""Lines of any size, split anywhere, also of JSON that no decoder takes."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import Malformed
from informers.decoding import LineSplitter, Unbalanced, split_json

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
