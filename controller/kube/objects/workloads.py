"""Jobs, StatefulSets and their revisions."""

from __future__ import annotations

from typing import Any

from controller.kube.objects.metadata import Condition, KubeObject, View


class ControllerRevision(KubeObject, frozen=True):
    """A ControllerRevision without its data, which may be as large as the object it belongs to."""

    revision: int = 0


class BatchJobSpec(View, frozen=True):
    """`spec` of a Job. The template stays plain data, because it is copied into pods."""

    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    suspend: bool | None = None
    selector: dict[str, Any] | None = None
    template: dict[str, Any] | None = None


class BatchJobStatus(View, frozen=True):
    """`status` of a Job."""

    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(KubeObject, frozen=True):
    """A Job."""

    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()


class ProbeCommand(View, frozen=True):
    """`exec` of a probe."""

    command: tuple[str, ...] = ()


class ContainerProbe(View, frozen=True):
    """A probe, as far as it runs a command."""

    exec: ProbeCommand | None = None


class ServerContainer(View, frozen=True):
    """`spec.template.spec.containers[]` of a StatefulSet: what an update of the server needs."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    startup_probe: ContainerProbe | None = None


class ServerPodSpec(View, frozen=True):
    """`spec.template.spec` of a StatefulSet."""

    containers: tuple[ServerContainer, ...] = ()


class ServerTemplate(View, frozen=True):
    """`spec.template` of a StatefulSet."""

    spec: ServerPodSpec = ServerPodSpec()


class StatefulSetSelector(View, frozen=True):
    """`spec.selector` of a StatefulSet."""

    match_labels: dict[str, str] | None = None


class StatefulSetSpec(View, frozen=True):
    """`spec` of a StatefulSet."""

    replicas: int | None = None
    selector: StatefulSetSelector = StatefulSetSelector()
    template: ServerTemplate = ServerTemplate()
    volume_claim_templates: tuple[KubeObject, ...] = ()


class StatefulSetStatus(View, frozen=True):
    """`status` of a StatefulSet."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0


class StatefulSet(KubeObject, frozen=True):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()
