"""Input and result of the checks of `diagnose_pod`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import time_of
from controller.ray.api import labels
from controller.ray.api.pod_state import condition, group_of, is_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import ContainerStatus, Pod
    from controller.ray.diagnosis.reasons import Reason

SLOW_AFTER: Final = timedelta(minutes=5)
"""The time that a step of starting may take before it is reported as a cause of its own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        reason: kind of the cause.
        message: a predicate of the pod, with the remedy.
        since: time when it began, None if unknown.
        component: the component that it concerns, empty if it is the pod's own.
    """

    reason: Reason
    message: str
    since: datetime | None = None
    component: str = ""


def saying(words: str, said: str) -> str:
    """Return the words, and after a colon what another component said, ready to be continued."""
    quoted = said.strip()
    if not quoted.endswith(".."):
        quoted = quoted.removesuffix(".")
    return f"{words}: {quoted}" if quoted else words


@dataclass(frozen=True, slots=True)
class PodDiagnosis:
    """A pod that is not ready, and the context of its diagnosis."""

    pod: Pod
    now: datetime
    head_ready: bool

    @property
    def is_submitter(self) -> bool:
        """Whether it is the pod of a job's submitter."""
        return (self.pod.metadata.labels or {}).get(labels.NODE_TYPE) == labels.SUBMITTER

    @property
    def template(self) -> str:
        """The field in which the user changes the pod."""
        if is_head(self.pod):
            return "spec.headGroupSpec.template"
        if self.is_submitter:
            return "spec.submitterPodTemplate"
        return f"the template of group {group_of(self.pod)}"

    @property
    def containers(self) -> Iterator[tuple[str, ContainerStatus]]:
        """All containers with a status, in the order in which they start."""
        for container in self.pod.status.init_container_statuses:
            yield f"init container {container.name}", container
        for container in self.pod.status.container_statuses:
            yield f"container {container.name}", container

    def since(self, kind: str) -> datetime | None:
        """Return the time when that condition of the pod last changed; None if unknown."""
        found = condition(self.pod, kind)
        return time_of(found.last_transition_time if found else None)

    def is_late(self, since: datetime | None) -> bool:
        """Return whether `SLOW_AFTER` has passed since then."""
        return since is not None and self.now - since >= SLOW_AFTER
