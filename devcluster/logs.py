"""Logs of pods: what processes have written, or the starts and ends of simulated containers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from controller.apimachinery.conditions import rfc3339_micro
from devcluster.apiserver import ApiServer
from devcluster.apiserver.messages import ApiRequest, ApiResponse, ResourcePath
from devcluster.apiserver.status import bad_request
from devcluster.processes.output import Output, Outputs

Json = dict[str, Any]
GROUPS = ("initContainers", "containers")


def chosen_container(pod: Json, asked: str) -> str:
    """Return the container that a request for logs names.

    Raises:
        ApiError: 400, it is not clear which one.
    """
    names = [one["name"] for group in GROUPS for one in pod["spec"].get(group, ())]
    main = [one["name"] for one in pod["spec"]["containers"]]
    name = pod["metadata"]["name"]
    if not asked and len(names) > 1:
        listed = " ".join(main)
        raise bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{listed}]"
        )
    if asked and asked not in names:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked or names[0]


def _status(pod: Json, name: str) -> Json:
    status: Json = pod.get("status", {})
    for group in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(group, ()):
            if one["name"] == name:
                return one
    return {}


def why_no_log(pod: Json, name: str, *, previous: bool) -> str:
    """Return why there is no log; empty if there is one."""
    status, its_pod = _status(pod, name), pod["metadata"]["name"]
    if previous:
        if "terminated" in status.get("lastState", {}):
            return ""
        return f'previous terminated container "{name}" in pod "{its_pod}" not found'
    state: Json = status.get("state", {})
    if state.keys() & {"running", "terminated"} or "terminated" in status.get("lastState", {}):
        return ""
    reason = state.get("waiting", {}).get("reason", "ContainerCreating")
    return f'container "{name}" in pod "{its_pod}" is waiting to start: {reason}'


def is_waiting(pod: Json, name: str) -> bool:
    """Return whether a container waits for its first or next start."""
    return "waiting" in _status(pod, name).get("state", {})


class SimulatedLogs:
    """Answers requests for the log of a simulated pod: `server.hooks.pod_log`.

    No process runs in it: the lines follow from the pod's status alone.
    """

    def __init__(self, server: ApiServer) -> None:
        self._pods = server.store.table("pods")

    async def __call__(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Return the log of one container; `follow` continues it until the container ends.

        Raises:
            ApiError: 400, there is no such container, or it has not started yet.
        """
        pod = self._pods.items[f"{where.namespace}/{where.name}"].object
        name = chosen_container(pod, request.query.get("container", ""))
        previous = request.query.get("previous") == "true"
        if problem := why_no_log(pod, name, previous=previous):
            raise bad_request(problem)
        chunks = self._chunks(where, name, request.query, previous=previous)
        return ApiResponse(200, chunks, {"content-type": "text/plain"})

    async def _chunks(
        self, where: ResourcePath, name: str, query: Mapping[str, str], *, previous: bool
    ) -> AsyncGenerator[bytes, None]:
        key = f"{where.namespace}/{where.name}"
        stamped = query.get("timestamps") == "true"
        sent = 0
        if tail := query.get("tailLines"):
            sent = max(0, len(_lines(self._pods.items[key].object, name, previous)) - int(tail))
        while stored := self._pods.items.get(key):
            lines = _lines(stored.object, name, previous)
            for moment, text in lines[sent:]:
                yield (f"{moment} {text}\n" if stamped else f"{text}\n").encode()
            sent = max(sent, len(lines))
            state = _status(stored.object, name).get("state", {})
            if query.get("follow") != "true" or "terminated" in state:
                return
            await self._pods.next_change()


def _lines(pod: Json, name: str, previous: bool) -> list[tuple[str, str]]:
    status = _status(pod, name)
    state: Json = status.get("lastState" if previous else "state", {})
    if "waiting" in state:
        state = status.get("lastState", {})
    return list(_story(pod, name, status, state))


def _story(pod: Json, name: str, status: Json, state: Json) -> Iterator[tuple[str, str]]:
    ran: Json = state.get("running") or state.get("terminated") or {}
    began = ran.get("startedAt", "")
    node = pod["spec"].get("nodeName", "")
    yield began, f"container {name} started on {node} with image {status.get('image', '')}"
    container = next(
        one for group in GROUPS for one in pod["spec"].get(group, ()) if one["name"] == name
    )
    words = [*container.get("command", ()), *container.get("args", ())]
    if words:
        yield began, f"simulated, not run: {' '.join(' '.join(words).split())}"
    if "terminated" in state:
        yield ran.get("finishedAt", ""), f"container {name} exited with code {ran['exitCode']}"


# Processes.


class LogOptions(Struct, frozen=True):
    """Options of a request for logs.

    Attributes:
        limit: maximum bytes, None for no limit.
    """

    tail: int | None
    since: str
    limit: int | None
    follow: bool
    timestamps: bool

    @classmethod
    def of(cls, query: Mapping[str, str], now: datetime) -> LogOptions:
        """Parse the parameters of a request.

        Raises:
            ApiError: 400, one of them is invalid.
        """
        seconds = _number(query, "sinceSeconds")
        since = query.get("sinceTime", "")
        if seconds is not None:
            since = (now - timedelta(seconds=seconds)).isoformat()
        return cls(
            tail=_number(query, "tailLines"),
            since=_moment(since) if since else "",
            limit=_number(query, "limitBytes"),
            follow=query.get("follow") == "true",
            timestamps=query.get("timestamps") == "true",
        )


class ProcessLogs:
    """Answers requests for the log of a pod: `server.hooks.pod_log`."""

    def __init__(self, server: ApiServer, outputs: Outputs, wall: Callable[[], datetime]) -> None:
        self._pods = server.store.table("pods")
        self._outputs = outputs
        self._wall = wall

    async def __call__(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Return the log of one container; `follow` continues it until the container ends.

        Raises:
            ApiError: 400, there is no such container, or it has not started yet.
        """
        pod: dict[str, Any] = self._pods.items[f"{where.namespace}/{where.name}"].object
        name = chosen_container(pod, request.query.get("container", ""))
        previous = request.query.get("previous") == "true"
        wanted = LogOptions.of(request.query, self._wall())
        if why := why_no_log(pod, name, previous=previous):
            raise bad_request(why)
        earlier = previous and not is_waiting(pod, name)  # else the last run is the previous one
        output = self._outputs.find(pod["metadata"]["uid"], name, previous=earlier)
        if output is None:
            raise bad_request(f'the log of container "{name}" is no longer kept')
        return ApiResponse(200, read(output, wanted), {"content-type": "text/plain"})


async def read(output: Output, wanted: LogOptions) -> AsyncGenerator[bytes, None]:
    """Yield the requested part of an output, in pieces."""
    left = wanted.limit
    position = output.first if wanted.tail is None else output.end - wanted.tail
    while True:
        lines = (line for line in output.lines(position) if line.moment >= wanted.since)
        piece = b"".join(
            f"{moment} ".encode() + text if wanted.timestamps else text for moment, text in lines
        )
        position = output.end
        if piece:
            yield piece[:left]
        if left is not None:
            left -= len(piece)
            if left <= 0:
                return
        if position < output.end:
            continue
        if not wanted.follow or output.is_closed:
            return
        await output.next_change()


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not text.isdecimal():
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a whole number, 0 or more")
    return int(text)


def _moment(text: str) -> str:
    """Return a time in the format of outputs."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise bad_request(f"sinceTime: Invalid value: {text!r}: not a time") from error
    return rfc3339_micro(moment)
