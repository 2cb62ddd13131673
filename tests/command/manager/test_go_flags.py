"""Command lines as Go programs read them."""

from __future__ import annotations

import pytest

from controller.command.manager import parse, truth

FLAGS = {"name": str, "count": int, "on": truth}


@pytest.mark.parametrize(
    "words", [["-name=a"], ["--name=a"], ["-name", "a"], ["--name", "a"], ["-name=b", "-name=a"]]
)
def test_one_dash_or_two_and_the_last_value_counts(words: list[str]):
    assert parse(words, FLAGS) == {"name": "a"}


def test_a_boolean_takes_its_value_only_after_the_sign():
    assert parse(["-on"], FLAGS) == {"on": True}
    assert parse(["-on=false", "-name=a"], FLAGS) == {"on": False, "name": "a"}
    with pytest.raises(ValueError, match="'false' is not a flag"):
        parse(["-on", "false"], FLAGS)


@pytest.mark.parametrize("word", ["1", "t", "T", "true", "TRUE", "True"])
def test_what_go_takes_for_true(word: str):
    assert truth(word) is True


@pytest.mark.parametrize("word", ["0", "f", "F", "false", "FALSE", "False"])
def test_what_go_takes_for_false(word: str):
    assert truth(word) is False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-nam=a"], "-nam: there is no such flag"),
        (["-name"], "-name: a value is missing"),
        (["-count=x"], "-count=x: "),
        (["-on=yes"], "-on=yes: neither true nor false"),
        (["run"], "'run' is not a flag"),
        (["--", "run"], "'run' is not a flag"),
        (["-"], "'-' is not a flag"),
        (["", "run"], "'run' is not a flag"),
    ],
)
def test_what_cannot_be_read_is_named(words: list[str], message: str):
    with pytest.raises(ValueError, match=message):
        parse(words, FLAGS)


def test_an_empty_value_is_one():
    assert parse(["-name=", "-count=3"], FLAGS) == {"name": "", "count": 3}


def test_an_empty_word_ends_the_command_line_of_kuberays_chart_without_feature_gates():
    assert parse(["-count=3", ""], FLAGS) == {"count": 3}
