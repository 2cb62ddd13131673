"""Logs of simulated pods: the starts and ends of their containers.

The simulated kubelet runs no processes; the lines follow from the pod's status alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any

from controller.devcluster.apiserver import ApiServer
from controller.devcluster.apiserver.messages import ApiRequest, ApiResponse, ResourcePath
from controller.devcluster.apiserver.status import bad_request

Json = dict[str, Any]
GROUPS = ("initContainers", "containers")


class SimulatedLogs:
    """Answers requests for the log of a pod: `server.hooks.pod_log`."""

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
