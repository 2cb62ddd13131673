"""The shares of traffic of a RayService's clusters over time, and their chart."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.sax.saxutils import escape

import msgspec

from controller.command.development.demos.traffic import Traffic

# A small writer of SVG charts: panels above one another that share an axis of seconds.

Point = tuple[float, float]

COLOURS = ("#1f6fb4", "#d9601a", "#3a923a", "#8a4fb3")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 760, 120, 56, 150, 48, 40, 34  # pixels
_LETTER, _ROW = 5.5, 12
"""Pixels that a letter of a mark may take, and between rows of marks."""
_TEXT = 'font-family="sans-serif" font-size="12"'
_GREY = "#888888"


class Series(msgspec.Struct, frozen=True):
    """One line of seconds and values, in the order of time.

    A value `holds` until the next point; otherwise points are joined.
    """

    name: str
    points: Sequence[Point]
    holds: bool = False


class Panel(msgspec.Struct, frozen=True):
    """Lines that share an axis of values, from 0; the title has their unit."""

    title: str
    series: Sequence[Series]

    @property
    def most(self) -> float:
        """Upper end of the axis."""
        values = [value for each in self.series for _, value in each.points]
        return max([*values, 1.0])


class Chart(msgspec.Struct, frozen=True):
    """Panels from top to bottom, and moments (seconds and text) that concern all of them."""

    title: str
    panels: Sequence[Panel]
    seconds: float
    marks: Sequence[tuple[float, str]] = msgspec.field(default_factory=list[tuple[float, str]])

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
            points = _held_until(each.points) if each.holds else each.points
            drawn = [
                (self._x(at), round(base - _HEIGHT * value / panel.most, 1)) for at, value in points
            ]
            yield _line(drawn, colour, 2)
            beside = _LEFT + _WIDTH + 10
            yield _text(beside, top + 12 + 16 * number, each.name, f"fill='{colour}'")

    def _marks(self, bottom: float) -> Iterator[str]:
        starts: list[float] = []  # of the mark of each row to whose left the next one must end
        for seconds, what in reversed(self.marks):
            x = self._x(seconds)
            end = x + _LETTER * (len(what) + 1)
            row = next((row for row, start in enumerate(starts) if end <= start), len(starts))
            starts[row : row + 1] = [x]
            y = _TOP + 2 - _ROW * row
            yield _line([(x, y - _ROW + 4), (x, bottom)], _GREY, 1, "stroke-dasharray='3 3'")
            yield _text(x + 3, y, what, f"fill='{_GREY}' font-size='10'")

    def _seconds(self, y: float) -> Iterator[str]:
        step = next(each for each in (10, 30, 60, 300, 900, 86400) if self.seconds / each <= 12)
        for seconds in range(0, int(self.seconds) + 1, step):
            yield _text(self._x(seconds), y, f"{seconds} s", "text-anchor='middle'")


def _held_until(points: Sequence[Point]) -> list[Point]:
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


# Capacity and weight of the clusters of a RayService over time, as its status has them.


class Share(msgspec.Struct, frozen=True):
    """The shares of a cluster, in percent, from a moment on (seconds since 1970)."""

    at: float
    cluster: str
    capacity: int
    weight: int


@dataclass(slots=True)
class MeasuredShares:
    """All shares so far, oldest first, and when something else happened."""

    listed: list[Share] = field(default_factory=list[Share])
    marks: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def saw(self, shares: Mapping[str, tuple[int, int]]) -> None:
        """Record the shares of all clusters; one that is no longer listed has none."""
        if not shares:
            return  # the RayService is gone
        gone = dict.fromkeys((share.cluster for share in self.listed), (0, 0))
        now = time.time()
        for cluster, share in {**gone, **shares}.items():
            latest = self.latest(cluster)
            if latest is None or (latest.capacity, latest.weight) != share:
                self.listed.append(Share(now, cluster, *share))

    def latest(self, cluster: str) -> Share | None:
        """Return the present share of a cluster; None if it never had one."""
        return next((each for each in reversed(self.listed) if each.cluster == cluster), None)

    def mark(self, what: str) -> None:
        """Record that an event happens now."""
        self.marks.append((time.time(), what))

    def weight(self, cluster: str) -> int:
        """Return the present weight of a cluster."""
        latest = self.latest(cluster)
        return latest.weight if latest else 0

    def wrong(self, surge: int, step: int) -> list[str]:
        """Return sentences about shares that moved too fast, or are too large, in percent.

        A cluster may get everything at once while no other one has anything.
        """
        found: list[str] = []
        before: dict[str, Share] = {}
        for share in self.listed:
            last = before.get(share.cluster, share)
            if not any(each.capacity for each in before.values()):
                last = share  # the first cluster
            if abs(share.capacity - last.capacity) > surge:
                found.append(f"capacity {last.capacity} -> {share.capacity} %: {share.cluster}")
            if abs(share.weight - last.weight) > step:
                found.append(f"weight {last.weight} -> {share.weight} %: {share.cluster}")
            if share.weight > share.capacity:
                found.append(
                    f"{share.weight} % weight, {share.capacity} % capacity: {share.cluster}"
                )
            before[share.cluster] = share
        return found


def chart_of(shares: MeasuredShares, traffic: Traffic) -> Chart:
    """Return the chart of capacity, weight and answers by version during the requests."""
    began = traffic.seconds[0].at if traffic.seconds else 0.0
    length = traffic.seconds[-1].at - began if traffic.seconds else 0.0
    clusters = list(dict.fromkeys(share.cluster for share in shares.listed))
    capacity = [_held(shares, name, "capacity", began, length) for name in clusters]
    weight = [_held(shares, name, "weight", began, length) for name in clusters]
    return Chart(
        "Incremental upgrades of a RayService: one reverted half-way, one completed",
        [
            Panel("capacity, % of the full size", capacity),
            Panel("weight, % of the requests", weight),
            Panel("answers a second", list(_answers(traffic, began))),
        ],
        length,
        [(max(at - began, 0.0), what) for at, what in shares.marks],
    )


def _held(
    shares: MeasuredShares,
    cluster: str,
    what: Literal["capacity", "weight"],
    began: float,
    length: float,
) -> Series:
    """Return one value of a cluster, from the begin to the end of the chart."""
    points = [
        (min(max(each.at - began, 0.0), length), float(getattr(each, what)))
        for each in shares.listed
        if each.cluster == cluster
    ]
    return Series(cluster, [*points, (length, points[-1][1])], holds=True)


def _answers(traffic: Traffic, began: float) -> Iterator[Series]:
    """Yield answers of each second by version."""
    for version in dict.fromkeys(answer.version for answer in traffic.answers):
        points = [
            (second.at - began, float(sum(a.count for a in second.answers if a.version == version)))
            for second in traffic.seconds
        ]
        yield Series(version, points)
