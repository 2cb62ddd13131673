"""The output of a job, from the logs of the pods that submit it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from controller.command.development.demos.pod_log import follow_log
from controller.ray.api.pod_state import SUBMISSION_ID, container_with

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from controller.kube.objects import Pod
    from controller.kube.transport import Transport

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SIDECAR = "ray-job-submitter"


class JobLog:
    """Follows the log of every submitter of a job.

    Args:
        server: the API server.
        name: name of the RayJob, and so of its submitter Job.
        saw_line: called with each line.
        tasks: where the followers run.
    """

    def __init__(
        self,
        server: Transport,
        name: str,
        saw_line: Callable[[str], None],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._server = server
        self._name = name
        self._saw_line = saw_line
        self._tasks = tasks
        self._followed: set[tuple[str, int]] = set()
        self._running: set[asyncio.Task[None]] = set()

    def saw_pod(self, key: str, pod: Pod | None) -> None:
        """Follow the log of a submitter that has started, once for each start."""
        del key
        if pod is None:
            return
        container = self._submitter(pod)
        for status in pod.status.container_statuses:
            started = status.state.running or status.state.terminated
            start = (pod.metadata.uid, status.restart_count)
            if status.name == container and started and start not in self._followed:
                self._followed.add(start)
                task = self._tasks.create_task(self._follow(pod, container))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def close(self) -> None:
        """Stop following."""
        for task in self._running:
            task.cancel()

    def _submitter(self, pod: Pod) -> str:
        """Name of the container whose output is the job's; empty if this pod has none."""
        found = container_with(pod.spec.containers, SUBMISSION_ID)
        name = found.name if found is not None else ""
        is_jobs = (pod.metadata.labels or {}).get("job-name") == self._name
        return name if is_jobs or name == _SIDECAR else ""

    async def _follow(self, pod: Pod, container: str) -> None:
        async for line in follow_log(self._server, pod, container):
            self._saw_line(_COLOURS.sub("", line).rstrip())
