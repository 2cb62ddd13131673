"""What became of the requests of clients, and what clusters got meanwhile, with a chart."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from devcluster.apiserver import ApiServer
from devcluster.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    ResourcePath,
    proxy_target,
)

# The requests of the client in the pod, as `serve_client` prints them.

CLIENT = "client"
"""Name of the pod and of its container."""

_SOURCE = Path(__file__).with_name("serve_client.py")


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """Equal answers of one second: path, version of the config, and who has answered."""

    path: str
    version: str
    cluster: str
    process: str
    count: int


class TrafficLine(msgspec.Struct, frozen=True):
    """What happened since the line before. Times are seconds, `at` since 1970."""

    at: float
    answers: list[Answer]
    failures: list[str]
    slowest: float


@dataclass(slots=True)
class Traffic:
    """All requests so far, in seconds, oldest first."""

    seconds: list[TrafficLine] = field(default_factory=list[TrafficLine])

    def saw_line(self, line: str) -> TrafficLine:
        """Add a line; anything else that the client prints counts as a failure."""
        try:
            second = msgspec.json.decode(line, type=TrafficLine)
        except msgspec.DecodeError:
            second = TrafficLine(self.seconds[-1].at if self.seconds else 0.0, [], [line], 0.0)
        self.seconds.append(second)
        return second

    @property
    def answers(self) -> Iterator[Answer]:
        """All answers, oldest first."""
        return (answer for second in self.seconds for answer in second.answers)

    @property
    def failures(self) -> list[str]:
        """The reasons why requests failed."""
        return [failure for second in self.seconds for failure in second.failures]

    @property
    def slowest(self) -> float:
        """Seconds of the slowest request."""
        return max((second.slowest for second in self.seconds), default=0.0)

    def by_version(self) -> Counter[tuple[str, str]]:
        """Return the number of answers by version and cluster, ordered by their first answers."""
        counts: Counter[tuple[str, str]] = Counter()
        for answer in self.answers:
            counts[answer.version, answer.cluster] += answer.count
        return counts

    def lines(self) -> Iterator[str]:
        """Yield the counts, for the summary."""
        for (version, cluster), count in self.by_version().items():
            yield f"{f'answers of {version}':<28}{count:6}  {cluster}"
        yield f"{'requests that failed':<28}{len(self.failures):6}"
        yield from (f"  {failure}" for failure in self.failures[:5])
        yield f"{'slowest answer':<28}{self.slowest:6.2f} s"

    def processes(self, path: str, cluster: str) -> set[str]:
        """Return the processes of a cluster that have answered requests for a path."""
        return {
            answer.process
            for answer in self.answers
            if (answer.path, answer.cluster) == (path, cluster)
        }

    def latest(self, seconds: int) -> set[tuple[str, str, str]]:
        """Return path, version and cluster of the latest answers; none before so many seconds."""
        if len(self.seconds) < seconds:
            return set()
        return {
            (answer.path, answer.version, answer.cluster)
            for second in self.seconds[-seconds:]
            for answer in second.answers
        }


def client_pod(image: str, host: str, port: int, paths: list[str]) -> dict[str, Any]:
    """Return the pod of the client, which asks a service for these paths in turn."""
    command = ["python", "-u", "-c", _SOURCE.read_text(), host, str(port), *paths]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": CLIENT},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": CLIENT, "image": image, "command": command}],
        },
    }


# The Serve configs that clusters get, seen where they pass: at the API server's proxy.

_PATH = "/api/serve/applications/"
_HEAD_SERVICE = "-head-svc"


def versions_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the version of each application of a Serve config, by name."""
    return {
        each["name"]: ", ".join(one["user_config"]["version"] for one in each["deployments"])
        for each in config.get("applications", ())
    }


class Put(msgspec.Struct, frozen=True):
    """One PUT of a Serve config: `target_capacity` in percent; status 0 without an answer."""

    cluster: str
    versions: Mapping[str, str]
    capacity: int | None
    status: int

    def text(self) -> str:
        """Return the PUT in one line."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        capacity = "" if self.capacity is None else f", capacity {self.capacity} %"
        return f"PUT to {self.cluster}: {versions}{capacity} ({self.status or 'no answer'})"


class PutRecorder:
    """Records every PUT of a Serve config that goes through the API server, once it is answered."""

    def __init__(self, server: ApiServer, saw: Callable[[Put], None]) -> None:
        assert server.hooks.service_proxy is not None
        self._forward = server.hooks.service_proxy
        self._saw = saw
        server.hooks.service_proxy = self

    async def __call__(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Forward a request; see `Hooks.service_proxy`."""
        status = 0
        try:
            response = await self._forward(request, where)
            status = response.status
        finally:
            if request.method == "PUT" and f"/{where.rest.lstrip('/')}" == _PATH:
                self._saw(_put(where.name, request.body or b"{}", status))
        return response


def _put(service: str, body: bytes, status: int) -> Put:
    """Return a PUT by the service that it was sent to, `[scheme:]NAME[:port]`."""
    _, name, _ = proxy_target(service)
    config: dict[str, Any] = msgspec.json.decode(body)
    capacity = config.get("target_capacity")
    return Put(name.removesuffix(_HEAD_SERVICE), versions_of(config), capacity, status)


# A chart of panels above one another that share an axis of seconds; `chart.svg` is its template.

Point = tuple[float, float]

COLOURS = ("#1f6fb4", "#d9601a", "#3a923a", "#8a4fb3")
_LEFT, _WIDTH, _HEIGHT, _DISTANCE = 56, 760, 120, 160  # pixels of panels, as in the template
_LETTER, _ROW = 5.5, 12
"""Pixels that a letter of a mark may take, and between rows of marks."""


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
        from jinja2 import Environment  # noqa: PLC0415  only what a chart needs

        template = Path(__file__).with_name("chart.svg").read_text()
        environment = Environment(autoescape=True, trim_blocks=True, keep_trailing_newline=True)
        bottom = 48 + _DISTANCE * len(self.panels)
        return environment.from_string(template).render(chart=self, colours=COLOURS, bottom=bottom)

    @property
    def step(self) -> int:
        """Seconds between two labels."""
        return next(each for each in (10, 30, 60, 300, 900, 86400) if self.seconds / each <= 12)

    def x(self, seconds: float) -> float:
        """Return the place of a moment, in pixels."""
        return round(_LEFT + _WIDTH * seconds / max(self.seconds, 1.0), 1)

    def drawn(self, panel: Panel, series: Series, base: int) -> list[Point]:
        """Return the points of a line, in pixels; `base` is where its values are 0."""
        corners: list[Point] = []
        for at, value in series.points:
            if corners and series.holds:
                corners.append((at, corners[-1][1]))
            corners.append((at, value))
        return [(self.x(at), round(base - _HEIGHT * y / panel.most, 1)) for at, y in corners]

    def placed_marks(self) -> Iterator[tuple[float, int, str]]:
        """Yield the place and text of each mark, the last one first, in rows without overlaps."""
        starts: list[float] = []  # of the mark of each row to whose left the next one must end
        for seconds, what in reversed(self.marks):
            x = self.x(seconds)
            end = x + _LETTER * (len(what) + 1)
            row = next((row for row, start in enumerate(starts) if end <= start), len(starts))
            starts[row : row + 1] = [x]
            yield x, 50 - _ROW * row, what


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
