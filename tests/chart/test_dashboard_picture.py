"""The picture of the dashboard in the docs has the panels of the dashboard, drawn from data."""

from __future__ import annotations

import re
from html import escape

import pytest

from tests.chart.dashboard_picture import PANELS, PICTURE, Series, drawing, series, written

DRAWN = PICTURE.read_text()
CURVE = next(each for each in PANELS if each["type"] == "timeseries")
NUMBER = next(each for each in PANELS if each["type"] == "stat")


def test_the_picture_has_every_panel_and_heading_and_no_other():
    titles = re.findall(r'font-weight="bold">(.*?)</text>', DRAWN)
    assert titles == [escape(each["title"]) for each in PANELS], (
        "run python -m tests.chart.dashboard_picture"
    )


@pytest.mark.parametrize("panel", [each for each in PANELS if each["type"] != "row"])
def test_a_panel_shows_data(panel: dict[str, str]):
    part = DRAWN.split(f'font-weight="bold">{escape(panel["title"])}</text>')[1].split("</g>")[0]
    assert "no data" not in part


def test_an_answer_becomes_a_line_with_its_legend():
    answer = [{"metric": {"verb": "POST"}, "values": [[100.0, "NaN"], [102.0, "3"]]}]
    assert list(series("{{verb}} p50", answer, 100.0)) == [Series("POST p50", [(2.0, 3.0)])]
    assert list(series("", [{"metric": {}, "values": [[1.0, "NaN"]]}], 0.0)) == []


def test_the_highest_value_is_at_the_top_and_zero_at_the_bottom():
    line = Series("a", [(0.0, 0.0), (60.0, 4.0), (120.0, 2.0)])
    (points,) = re.findall(r'points="(.*?)"', drawing({CURVE["id"]: [line]}))
    (_, bottom), (_, top), (_, middle) = (each.split(",") for each in points.split())
    assert float(top) == 30.0
    assert float(middle) == (float(top) + float(bottom)) / 2


def test_a_number_is_the_last_one():
    drawn = drawing({NUMBER["id"]: [Series("", [(0.0, 1.0), (2.0, 7.0)])]})
    assert ">7</text>" in drawn
    assert ">1</text>" not in drawn


def test_values_are_written_with_their_units():
    assert written(3 * 2**20, "bytes") == "3 MiB"
    assert written(0.01234, "s") == "0.0123 s"
    assert written(2.0, "reqps") == "2/s"
    assert written(2.0, "none") == "2"
