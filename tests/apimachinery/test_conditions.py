"""Texts that are longer than a condition's message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.apimachinery.conditions import LONGEST_MESSAGE, ConditionSet, stored_message, tells

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG = " ".join(map(str, range(2000)))


def stored(message: str) -> dict[str, Any]:
    conditions = ConditionSet((), 1, NOW)
    conditions.set("Ready", "False", "Reason", message)
    (found,) = conditions.as_list()
    return found


def test_a_message_is_stored_as_far_as_it_fits():
    assert stored(LONG)["message"] == stored_message(LONG) == LONG[:LONGEST_MESSAGE]


@pytest.mark.parametrize("text", ["short", LONG])
@pytest.mark.parametrize("around", ["{}", "1 of 3 is ready; {}", "{}; and so on"])
def test_a_condition_tells_the_text_from_which_it_was_made(around: str, text: str):
    assert tells(stored(around.format(text)), text)


@pytest.mark.parametrize("message", ["nothing", f"of {LONG[:2000]} ...", "x" * 9000])
@pytest.mark.parametrize("text", ["another", f"{LONG[:1000]} another", LONG])
def test_a_condition_tells_no_other_text(message: str, text: str):
    assert not tells(stored(message), text)


def test_a_message_that_ends_as_a_text_begins_by_chance_does_not_tell_it():
    message = "x" * (LONGEST_MESSAGE - 3) + LONG[:3]
    assert not tells({"message": message}, LONG)


def test_a_condition_without_a_message_tells_nothing():
    assert not tells({}, "a text")
