"""The requests of the client in the pod, as `serve_client` prints them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = "client"
"""Name of the pod and of its container."""

_SOURCE = Path(__file__).with_name("serve_client.py")


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """Equal answers of one second.

    Attributes:
        path: what was asked for.
        version: version of the config that has answered.
        cluster: that has answered.
        process: process of the replica that has answered.
        count: how many.
    """

    path: str
    version: str
    cluster: str
    process: str
    count: int


class TrafficLine(msgspec.Struct, frozen=True):
    """One line of the client.

    Attributes:
        at: when it was printed, seconds since 1970.
        answers: answers since the previous line.
        failures: why requests failed.
        slowest: seconds of the slowest request.
    """

    at: float
    answers: list[Answer]
    failures: list[str]
    slowest: float


@dataclass(slots=True)
class Traffic:
    """All requests so far.

    Attributes:
        seconds: the lines, oldest first.
    """

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
    """Return the pod of the client.

    Args:
        image: has a Python.
        host: name of the service.
        port: port of the service.
        paths: paths of the applications, which are asked in turn.
    """
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
