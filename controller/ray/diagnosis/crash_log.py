"""The log of a container that has ended without a word for the kubelet.

Few containers leave a termination message. Of one pod at a time, the head first, the last lines of
the log are read instead, once for each end, and stand where that message would be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from controller.apimachinery.redaction import last_error
from controller.kube.objects import ContainerStatus, Pod
from controller.ray.api.pod_state import is_head, is_on_lost_node, is_ready
from controller.runtime.kind import LogText
from controller.runtime.plan import LogTail


def log_to_read(pods: Iterable[Pod], *, of_ready: bool = False) -> LogTail | None:
    """Return the log that says why one of the pods is not ready; None if none has to be read.

    The kubelet of a lost node does not answer.

    Args:
        pods: of which one is chosen.
        of_ready: whether the end before a pod became ready again counts, too.
    """
    candidates = (pod for pod in pods if (of_ready or not is_ready(pod)))
    for pod in sorted(candidates, key=_order):
        if pod.metadata.terminating or is_on_lost_node(pod):
            continue
        status = pod.status
        for container in (*status.init_container_statuses, *status.container_statuses):
            if _is_silent(container) and (of_ready or not container.ready):
                return LogTail(
                    pod.metadata.namespace,
                    "",
                    container.name,
                    pod=pod.metadata.name,
                    previous=container.last_state.terminated is not None,
                    restarts=container.restart_count,
                )
    return None


def with_log_tail(pod: Pod, log: LogTail | None, text: LogText | None) -> Pod:
    """Return the pod as if its container had left the end of its log for the kubelet."""
    if log is None or text is None or not text.text or log.pod != pod.metadata.name:
        return pod
    fields = ("init_container_statuses", "container_statuses")
    statuses = {name: _with_message(getattr(pod.status, name), log, text.text) for name in fields}
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, **statuses))


def _order(pod: Pod) -> tuple[bool, str, str]:
    return not is_head(pod), pod.metadata.creation_timestamp or "", pod.metadata.name


def _is_silent(container: ContainerStatus) -> bool:
    """Return whether it has failed or ends again and again, and nobody knows the error."""
    end = container.last_state.terminated or container.state.terminated
    if end is None or (not end.exit_code and not container.restart_count):
        return False
    return end.reason != "OOMKilled" and not last_error(end.message)


def _with_message(
    statuses: Iterable[ContainerStatus], log: LogTail, text: str
) -> tuple[ContainerStatus, ...]:
    """Return the statuses with the text in the last end of the container that wrote the log."""
    which = "last_state" if log.previous else "state"

    def with_message(container: ContainerStatus) -> ContainerStatus:
        state: Any = getattr(container, which)
        if container.name != log.container or state.terminated is None:
            return container
        end = msgspec.structs.replace(state.terminated, message=text)
        changed = {which: msgspec.structs.replace(state, terminated=end)}
        return msgspec.structs.replace(container, **changed)

    return tuple(map(with_message, statuses))
