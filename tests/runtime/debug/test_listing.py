"""Lists of the debug page: bounded, oldest first, and an odd object costs only itself."""

from __future__ import annotations

import pytest

from controller.runtime.debug import LIMIT, RunEntry, cause, listing


def run(number: int) -> RunEntry:
    return RunEntry(f"default/{number}", float(number))


def test_a_list_is_cut_and_says_how_many_there_are():
    shown = listing(range(LIMIT + 5), run, rank=lambda item: -item.duration)
    assert shown.total == LIMIT + 5
    assert [item.duration for item in shown.items] == list(range(LIMIT + 4, 4, -1))
    assert listing(range(3), run, total=7).total == 7


def test_objects_that_cannot_be_described_cost_only_themselves():
    def describe(number: int) -> RunEntry:
        return RunEntry("default/a", 1 / number)

    shown = listing([1, 0, 2, 0], describe)
    assert ([item.duration for item in shown.items], shown.unreadable) == ([1.0, 0.5], 2)
    assert shown.total == 4


def test_an_object_that_cannot_be_written_costs_only_itself():
    shown = listing(["a", "\ud800", "b"], lambda key: RunEntry(key, 0.0))
    assert ([item.key for item in shown.items], shown.unreadable) == (["a", "b"], 1)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Conflict: the object has been modified", "Conflict: the object has been modified"),
        ('pods "a" is forbidden: exceeded quota', 'pods "" is forbidden: exceeded quota'),
        ('spec.env: Invalid value: "hunter2": no', 'spec.env: Invalid value: "": no'),
        ('Invalid value: "hun\\"ter2": no', 'Invalid value: "": no'),
        ("spec: Invalid value: {Env:[{A hunter2}]}: no", "spec: Invalid value: ..."),
        ("{Name:KEY Value:hunter ValueFrom:nil}", "{..."),
        ("no: Name:KEY Value:hunter", "no: Name:KEY Value:..."),
        ("spec: no, given map[KEY:hunter]", "spec: no, given map[..."),
        ("PASSWORD=hunter is no password", "PASSWORD=..."),
        ('PASSWORD="hunter" is none', 'PASSWORD="" is none'),
        ('webhook "a" denied the request: not hunter', 'webhook "" denied the request: ...'),
        ("GET /api/jobs/: HTTP 500: KEY hunter", "GET /api/jobs/: HTTP #: ..."),
        ('cut off: "hunter2', 'cut off: ""'),
        ("ValueError: invalid literal: 'hunter2'", 'ValueError: invalid literal: ""'),
        ("value `hunter2` is odd", 'value "" is odd'),
        ("it doesn't answer, and isn't there", "it doesn't answer, and isn't there"),
        ("one\nline\x1b[31m", "one line [#"),
        ("after 17 s at 10.0.0.1:6443", "after # s at #"),
        ("x " * 100, "x " * 100),
        ("x " * 150, "x " * 100 + "..."),
    ],
)
def test_a_cause_quotes_nothing_that_a_user_may_have_written(message: str, shown: str):
    assert cause(message) == shown


def test_a_huge_message_takes_no_time():
    assert len(cause('"' * 10_000_000)) < 300
