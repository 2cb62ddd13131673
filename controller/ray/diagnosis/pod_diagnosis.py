"""A pod that is not ready, as the checks of `diagnose_pod` look at it, and what they find."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.timestamps import parse_rfc3339
from controller.ray.api.pod_state import condition, group_of, is_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import ContainerStatus, Pod
    from controller.ray.diagnosis.reasons import Reason

SLOW_AFTER: Final = timedelta(minutes=5)
"""How long what takes time may take before it is told as a cause of its own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; `component` if it is not the part that the pod belongs to."""

    reason: Reason
    message: str
    since: datetime | None = None
    component: str = ""


@dataclass(frozen=True, slots=True)
class PodDiagnosis:
    """A pod that is not ready, and what else its trouble depends on."""

    pod: Pod
    now: datetime
    head_ready: bool

    @property
    def template(self) -> str:
        """Where the user changes it."""
        if is_head(self.pod):
            return "spec.headGroupSpec.template"
        return f"the template of group {group_of(self.pod)}"

    @property
    def containers(self) -> Iterator[tuple[str, ContainerStatus]]:
        """All containers with a status, in the order in which they start."""
        for container in self.pod.status.init_container_statuses:
            yield f"init container {container.name}", container
        for container in self.pod.status.container_statuses:
            yield f"container {container.name}", container

    def since(self, kind: str) -> datetime | None:
        """When that condition of the pod last changed."""
        found = condition(self.pod, kind)
        return moment(found.last_transition_time if found else None)

    def is_late(self, since: datetime | None) -> bool:
        """Whether that is longer ago than starting takes."""
        return since is not None and self.now - since >= SLOW_AFTER


def moment(text: str | None) -> datetime | None:
    """A timestamp of the API, None if there is none or it makes no sense."""
    try:
        return parse_rfc3339(text).astimezone(UTC) if text else None
    except ValueError:
        return None
