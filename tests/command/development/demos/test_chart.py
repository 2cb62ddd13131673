"""The chart of an incremental upgrade."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from controller.command.development.demos.chart import Chart, Panel, Series

SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart: Chart) -> ET.Element:
    return ET.fromstring(chart.svg())


def lines(chart: Chart) -> list[list[tuple[float, float]]]:
    """The points of the thick lines."""
    return [
        [tuple(map(float, point.split(","))) for point in each.attrib["points"].split()]  # type: ignore[misc]
        for each in drawn(chart).iter(f"{SVG}polyline")
        if each.attrib["stroke-width"] == "2"
    ]


def test_a_value_that_holds_is_drawn_in_steps():
    held = Series("old", [(0, 100), (50, 60), (100, 0)], holds=True)
    (points,) = lines(Chart("upgrade", [Panel("capacity, %", [held])], 100))
    xs, ys = [x for x, _ in points], [y for _, y in points]
    assert xs == [56, 436, 436, 816, 816]
    assert ys[0] == ys[1] < ys[2] == ys[3] < ys[4]
    assert ys[4] - ys[0] == 120


def test_marks_that_follow_each_other_do_not_overlap():
    marks = [(1, "edited: v2"), (96, "reverted: v1"), (110, "edited: v2"), (248, "complete")]
    chart = Chart("upgrade", [Panel("%", [Series("a", [(0, 1)])])], 260, marks)
    texts = [each.attrib for each in drawn(chart).iter(f"{SVG}text") if "font-size" in each.attrib]
    places = [(float(each["x"]), float(each["y"])) for each in texts]
    heights = [y for _, y in places]
    assert heights == [heights[0], heights[0], heights[0] - 12, heights[0]]  # the last one first
    assert min(heights) > 24  # below the title


def test_titles_names_and_marks_are_written_as_text():
    chart = Chart(
        "v1 & v2", [Panel("%", [Series("a", [(0, 1)])]), Panel("1/s", [])], 95, [(30, "edited")]
    )
    texts = [each.text for each in drawn(chart).iter(f"{SVG}text")]
    assert {"v1 & v2", "%", "1/s", "a", "edited", "0 s", "90 s"} <= set(texts)
