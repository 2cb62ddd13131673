"""What containers write, and what `kubectl logs` gives of it."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta

import pytest

from devcluster.apiserver.status import ApiError
from devcluster.logs import LogOptions, read
from devcluster.processes.output import LONGEST_LINE, Output, Outputs, Pipe

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Each line comes a second after the one before."""

    def __init__(self) -> None:
        self.now = EPOCH

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
async def output():
    return Output(Clock())


async def shown(output: Output, **query: str) -> str:
    wanted = LogOptions.of(query, EPOCH + timedelta(seconds=100))
    return b"".join([piece async for piece in read(output, wanted)]).decode()


async def test_lines_are_given_back(output):
    for text in (b"one", b"", b"three"):
        output.write(text)
    output.write(b"four", is_whole=False)
    assert await shown(output) == "one\n\nthree\nfour"
    assert (await shown(output, timestamps="true")).startswith("2026-01-01T00:00:01.000000Z one\n")


@pytest.mark.parametrize(
    ("tail", "lines"), [("0", 0), ("1", 1), ("2", 2), ("3", 3), ("4", 3), ("99", 3)]
)
async def test_the_tail_is_counted_in_lines(output, tail, lines):
    for number in range(3):
        output.write(str(number).encode())
    assert await shown(output, tailLines=tail) == "".join(f"{n}\n" for n in range(3)[3 - lines :])


async def test_an_empty_log_is_empty(output):
    assert await shown(output) == await shown(output, tailLines="5") == ""


async def test_only_what_came_since_then(output):
    for number in range(1, 5):
        output.write(str(number).encode())
    assert await shown(output, sinceSeconds="97") == "3\n4\n"
    assert await shown(output, sinceTime="2026-01-01T00:00:04Z") == "4\n"


async def test_no_more_bytes_than_wanted(output):
    output.write(b"hello")
    output.write(b"world")
    assert await shown(output, limitBytes="8") == "hello\nwo"


@pytest.mark.parametrize("query", [{"tailLines": "-1"}, {"sinceTime": "now"}, {"limitBytes": "x"}])
async def test_nonsense_is_refused(query):
    with pytest.raises(ApiError) as failure:
        LogOptions.of(query, EPOCH)
    assert failure.value.code == 400


async def test_a_follower_gets_lines_as_they_come(output):
    output.write(b"1")
    following = asyncio.create_task(shown(output, follow="true", tailLines="1"))
    for text in (b"2", b"3"):
        await asyncio.sleep(1)
        output.write(text)
    await asyncio.sleep(60)
    assert not following.done()
    output.close()
    assert await following == "1\n2\n3\n"


async def test_the_size_of_a_log_is_bounded_and_its_end_is_kept():
    output = Output(Clock(), largest=100)
    following = asyncio.create_task(shown(output, follow="true"))
    for number in range(100, 300):
        output.write(str(number).encode())
        await asyncio.sleep(1)
    kept = [int(line) for line in (await shown(output)).split()]
    assert kept == list(range(kept[0], 300))
    assert 12 <= len(kept) <= 25
    assert await shown(output, tailLines="2") == "298\n299\n"
    output.close()
    assert (await following).split() == [str(number) for number in range(100, 300)]


async def test_two_runs_of_a_container_are_kept():
    outputs = Outputs(Clock())
    for number in range(3):
        outputs.begin("u", "main").write(str(number).encode())
    last, before = outputs.find("u", "main"), outputs.find("u", "main", previous=True)
    assert last is not None
    assert (await shown(last), await shown(before)) == ("2\n", "1\n")
    outputs.begin("u", "main")
    outputs.abandon("u", "main")
    assert await shown(outputs.find("u", "main")) == "2\n"
    outputs.forget("u")
    assert outputs.find("u", "main") is None
    assert await shown(last, follow="true") == "2\n"


@pytest.mark.real_time
async def test_a_pipe_is_split_into_lines(output):
    pipe = Pipe(output)
    os.write(pipe.writer, b"one\ntw")
    await asyncio.sleep(0.05)
    os.write(pipe.writer, b"o\n" + b"x" * (LONGEST_LINE + 5) + b"\nrest")
    pipe.started()
    await pipe.drained(60)
    assert await shown(output) == f"one\ntwo\n{'x' * (LONGEST_LINE + 5)}\nrest"


@pytest.mark.real_time
async def test_a_pipe_that_somebody_keeps_open_is_given_up(output):
    pipe = Pipe(output)
    other = os.dup(pipe.writer)
    os.write(other, b"last words")
    await pipe.drained(0.05)
    os.close(other)
    assert await shown(output) == "last words"
