"""Capacities and weights of an incremental upgrade, as the demo follows them."""

from __future__ import annotations

import json

import pytest

from controller.command.development.demos.chart import MeasuredShares, chart_of
from controller.command.development.demos.traffic import Traffic

STEPS = (
    {"old": (100, 100)},
    {"old": (100, 100), "new": (50, 0)},
    {"old": (100, 75), "new": (50, 25)},
    {"old": (100, 75), "new": (50, 25)},
    {"old": (100, 50), "new": (50, 50)},
    {"old": (50, 50), "new": (50, 50)},
)


def seen(*steps: dict[str, tuple[int, int]]) -> MeasuredShares:
    shares = MeasuredShares()
    for step in steps:
        shares.saw(step)
    return shares


def test_each_change_is_noted_once():
    shares = seen(*STEPS)
    assert [(each.cluster, each.capacity, each.weight) for each in shares.listed] == [
        ("old", 100, 100),
        ("new", 50, 0),
        ("old", 100, 75),
        ("new", 50, 25),
        ("old", 100, 50),
        ("new", 50, 50),
        ("old", 50, 50),
    ]
    assert (shares.weight("new"), shares.weight("third")) == (50, 0)
    assert shares.wrong(50, 25) == []


def test_the_first_cluster_gets_everything_at_once():
    assert seen({"first": (0, 0)}, {"first": (100, 100)}).wrong(50, 25) == []


def test_a_cluster_that_the_status_no_longer_names_has_nothing():
    shares = seen({"old": (50, 50), "new": (50, 50)}, {"new": (50, 50)}, {})
    latest = shares.latest("old")
    assert latest is not None
    assert (latest.capacity, latest.weight) == (0, 0)
    assert shares.weight("new") == 50


@pytest.mark.parametrize(
    ("step", "wrong"),
    [
        ({"old": (20, 20)}, "capacity 100 -> 20 %: old"),
        ({"old": (60, 60)}, "weight 100 -> 60 %: old"),
        ({"old": (50, 75)}, "75 % weight, 50 % capacity: old"),
    ],
)
def test_a_share_that_moves_too_fast_or_is_too_large_is_wrong(
    step: dict[str, tuple[int, int]], wrong: str
):
    assert wrong in seen({"old": (100, 100)}, step).wrong(50, 25)


def test_the_chart_has_capacities_weights_and_answers_of_each_version():
    shares, traffic = seen(*STEPS), Traffic()
    began = shares.listed[0].at
    for second, version in enumerate(("v1", "v1", "v2")):
        answers = [["/a", version, "old", "7", 20]]
        counted = {"at": began + second, "answers": answers, "failures": [], "slowest": 0.1}
        traffic.saw_line(json.dumps(counted))
    chart = chart_of(shares, traffic)
    assert chart.seconds == 2
    capacity, weight, answered = chart.panels
    assert [each.name for each in capacity.series] == ["old", "new"]
    assert [each.points[-1] for each in weight.series] == [(2, 50), (2, 50)]
    assert [(each.name, [value for _, value in each.points]) for each in answered.series] == [
        ("v1", [20, 20, 0]),
        ("v2", [0, 0, 20]),
    ]
