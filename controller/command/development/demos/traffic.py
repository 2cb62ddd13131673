"""What became of the requests of clients, and which Serve configs clusters got meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from controller.devcluster.apiserver import ApiServer
from controller.devcluster.apiserver.messages import (
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
