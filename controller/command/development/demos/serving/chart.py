"""A small writer of SVG charts: panels above one another that share an axis of seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Point = tuple[float, float]

COLOURS = ("#1f6fb4", "#d9601a", "#3a923a", "#8a4fb3")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 760, 120, 56, 150, 34, 40, 34  # pixels
_TEXT = 'font-family="sans-serif" font-size="12"'
_GREY = "#888888"


@dataclass(frozen=True, slots=True)
class Series:
    """One line.

    Attributes:
        name: for the legend.
        points: seconds and values, in the order of time.
        holds: whether a value holds until the next point; otherwise points are joined.
    """

    name: str
    points: Sequence[Point]
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines that share an axis of values, from 0.

    Attributes:
        title: what the values are, with their unit.
        series: the lines.
    """

    title: str
    series: Sequence[Series]

    @property
    def most(self) -> float:
        """Upper end of the axis."""
        values = [value for each in self.series for _, value in each.points]
        return max([*values, 1.0])


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels, and moments that concern all of them.

    Attributes:
        title: title of the chart.
        panels: from top to bottom.
        marks: seconds, and what happened.
        seconds: the end of the time axis.
    """

    title: str
    panels: Sequence[Panel]
    seconds: float
    marks: Sequence[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def svg(self) -> str:
        """Return the chart as an SVG document."""
        width = _LEFT + _WIDTH + _RIGHT
        height = _TOP + len(self.panels) * (_HEIGHT + _GAP) + _BOTTOM
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_TEXT}>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            _text(_LEFT, 20, self.title, "font-weight='bold'"),
        ]
        for number, panel in enumerate(self.panels):
            lines += self._panel(panel, _TOP + number * (_HEIGHT + _GAP) + _GAP / 2)
        lines += self._marks(height - _BOTTOM - _GAP / 2)
        lines += self._seconds(height - _BOTTOM)
        return "\n".join([*lines, "</svg>", ""])

    def _x(self, seconds: float) -> float:
        return round(_LEFT + _WIDTH * seconds / max(self.seconds, 1.0), 1)

    def _panel(self, panel: Panel, top: float) -> Iterator[str]:
        base = top + _HEIGHT
        yield _text(_LEFT, top - 5, panel.title)
        for share in (0.0, 0.5, 1.0):
            y = base - _HEIGHT * share
            yield _line([(_LEFT, y), (_LEFT + _WIDTH, y)], "#dddddd", 1)
            yield _text(_LEFT - 6, y + 4, f"{panel.most * share:g}", "text-anchor='end'")
        for number, (each, colour) in enumerate(zip(panel.series, COLOURS, strict=False)):
            points = _held(each.points) if each.holds else each.points
            drawn = [
                (self._x(at), round(base - _HEIGHT * value / panel.most, 1)) for at, value in points
            ]
            yield _line(drawn, colour, 2)
            beside = _LEFT + _WIDTH + 10
            yield _text(beside, top + 12 + 16 * number, each.name, f"fill='{colour}'")

    def _marks(self, bottom: float) -> Iterator[str]:
        for seconds, what in self.marks:
            x = self._x(seconds)
            yield _line([(x, _TOP), (x, bottom)], _GREY, 1, "stroke-dasharray='3 3'")
            yield _text(x + 3, _TOP + 2, what, f"fill='{_GREY}' font-size='10'")

    def _seconds(self, y: float) -> Iterator[str]:
        step = next(each for each in (10, 30, 60, 300, 900, 86400) if self.seconds / each <= 12)
        for seconds in range(0, int(self.seconds) + 1, step):
            yield _text(self._x(seconds), y, f"{seconds} s", "text-anchor='middle'")


def _held(points: Sequence[Point]) -> list[Point]:
    """Return the corners of the steps."""
    corners: list[Point] = []
    for at, value in points:
        if corners:
            corners.append((at, corners[-1][1]))
        corners.append((at, value))
    return corners


def _line(points: Sequence[Point], colour: str, width: int, more: str = "") -> str:
    path = " ".join(f"{x},{y}" for x, y in points)
    style = f'fill="none" stroke="{colour}" stroke-width="{width}"'
    return f'<polyline points="{path}" {style} {more}/>'


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" {more}>{escape(text)}</text>'
