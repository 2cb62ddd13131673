"""Odd values anywhere in an answer of a dashboard: it means what it meant before, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from controller.ray.dashboard import DashboardError
from controller.ray.dashboard.responses import MAX_MESSAGE, JobInfo
from controller.ray.dashboard.transport import DashboardResponse
from tests.fuzzing.odd import ODD, stored
from tests.ray.dashboard.client.readers import MEANS_SOMETHING, READS
from tests.ray.dashboard.recorded import recorded
from tests.ray.plain_data import paths

LONGEST = MAX_MESSAGE + 100
"""Characters of a text: what is kept of a message, and the words that tell of the cut."""

few = settings(max_examples=30, derandomize=True, database=None)
many = settings(max_examples=300, derandomize=True, database=None)
recorded_answers = pytest.mark.parametrize(
    ("read", "name"),
    [
        (read, name)
        for read, name in sorted(MEANS_SOMETHING)
        if recorded(name).body.startswith(b"{")
    ],
)


def odd_answers(answer: DashboardResponse) -> st.SearchStrategy[DashboardResponse]:
    """The answer with one to three odd values."""
    body = json.loads(answer.body)
    places = [path for path in paths(body) if path]
    change = st.tuples(st.sampled_from(places), st.sampled_from(list(ODD)))
    changes = st.lists(change, min_size=1, max_size=3)
    return changes.map(lambda drawn: replace(answer, body=stored(body, drawn)))


def texts(value: Any, depth: int = 0) -> Iterator[str]:
    """All texts of a value, which is not nested deeper than a status can be."""
    assert depth < 50
    match value:
        case Enum() | None | bool() | int() | float():
            return
        case str():
            yield value
        case Mapping():
            for pair in cast("Mapping[Any, Any]", value).items():
                yield from texts(pair, depth + 1)
        case list() | tuple():
            for member in cast("list[Any] | tuple[Any, ...]", value):
                yield from texts(member, depth + 1)
        case Struct():
            for name in value.__struct_fields__:
                if name != "config":  # compared with what is wanted, and never shown
                    yield from texts(getattr(value, name), depth + 1)
        case _:
            yield str(value)


def read_beside(read: str, answer: DashboardResponse, usual: Any) -> None:
    """Read an answer, and check what it means."""
    found = outcome(read, answer)
    if not isinstance(found, DashboardError):
        assert type(found) is type(usual)
    if isinstance(found, JobInfo):
        assert found.status is usual.status
    for text in texts(found):
        assert len(text) <= LONGEST
        text.encode()


def outcome(read: str, answer: DashboardResponse) -> Any:
    """The meaning of an answer, or why it has none."""
    try:
        return READS[read](answer)
    except DashboardError as error:
        return error


@recorded_answers
def test_a_text_of_any_length_is_bounded_wherever_it_is(read: str, name: str):
    usual = recorded(name)
    body, meaning = json.loads(usual.body), READS[read](usual)
    for path in paths(body):
        if path:
            read_beside(read, replace(usual, body=stored(body, [(path, "long")])), meaning)


@recorded_answers
@few
@given(data=st.data())
def test_odd_values_in_answers_are_survived(read: str, name: str, data: st.DataObject):
    usual = recorded(name)
    read_beside(read, data.draw(odd_answers(usual)), READS[read](usual))


@pytest.mark.slow
@recorded_answers
@many
@given(data=st.data())
def test_more_odd_values_in_answers_are_survived(read: str, name: str, data: st.DataObject):
    usual = recorded(name)
    read_beside(read, data.draw(odd_answers(usual)), READS[read](usual))
