"""Capacity and weight of the clusters of a RayService over time, as its status has them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from controller.command.development.demos.serving.chart import Chart, Panel, Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.command.development.demos.serving.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Share:
    """The shares of a cluster from a moment on.

    Attributes:
        at: seconds since 1970.
        cluster: its name.
        capacity: `targetCapacity`, percent.
        weight: `trafficRoutedPercent`.
    """

    at: float
    cluster: str
    capacity: int
    weight: int


@dataclass(slots=True)
class MeasuredShares:
    """All shares so far.

    Attributes:
        listed: each change, oldest first.
        marks: when something else happened, and what.
    """

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
        """Return sentences about shares that moved too fast, or are too large.

        A cluster may get everything at once while no other one has anything.

        Args:
            surge: `maxSurgePercent`.
            step: `stepSizePercent`.
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
