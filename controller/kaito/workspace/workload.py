"""Creates and changes the objects of a Workspace besides nodes: services, then the workload."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from controller.apimachinery.conditions import failed_alive, job_end, others_alive, own_containers
from controller.kaito.api.config_maps import OPTIONS_MAPS
from controller.kaito.api.revisions import RevisionState
from controller.kaito.api.status import Cause
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.presets.gpus import NodeGPUs, UnknownGPUs
from controller.kaito.presets.runtimes import find_tunable_model
from controller.kaito.workloads.preset import (
    Operations,
    image_upgrade,
    is_on_local_disk,
    preset_changes,
    preset_stateful_set,
    services,
    template_changes,
)
from controller.kaito.workloads.server import Serving, template_stateful_set, workload_gpus
from controller.kaito.workloads.tuning import Tuning, default_config_map, results_folder, tuning_job
from controller.kaito.workspace.nodes import NodeProgress
from controller.kaito.workspace.observation import (
    SeenWorkload,
    WorkspaceObservation,
    config_problem,
    missing_model,
)
from controller.kaito.workspace.watches import DEPLOYMENTS, JOBS, PODS
from controller.kube import resources
from controller.kube.objects import Job, ObjectMeta, StatefulSet
from controller.kube.resources import SERVICES, STATEFUL_SETS, Resource
from controller.runtime import reasons
from controller.runtime.plan import Create, Delete, Event, JsonPatch, MergePatch, Target, Write
from controller.runtime.reasons import (
    Reason,
    cause_of_missing_pod,
    next_look,
    remedies_in,
    suspension_of,
)

SCOPE: Final = "workload"
"""Scope of writes to the workload: while the outcome of one is unknown, none is sent."""

_MIGRATION: Final = Cause(
    "WorkloadMigration",
    "a StatefulSet takes the place of the Deployment of an older Kaito, once its pods are gone",
)


class WorkloadStep(Struct, frozen=True):
    """The next writes.

    Attributes:
        stages: creates, one group after the other.
        changes: patches and deletes of what is there.
        blocked: why nothing is created although the nodes are ready; None if nothing blocks it.
        upgrades: whether the server gets another image.
    """

    stages: tuple[tuple[Write, ...], ...] = ()
    changes: tuple[Write, ...] = ()
    blocked: Cause | None = None
    upgrades: bool = False


def workload_step(seen: WorkspaceObservation, progress: NodeProgress) -> WorkloadStep:
    """Return the next step of a valid Workspace; nothing before its revision is stored."""
    is_stored = seen.workload.history.create is None
    if not is_stored or seen.workload.has_pending_writes or not progress.target:
        return WorkloadStep()
    exists = seen.workload.server is not None or seen.workload.job is not None
    foreign = next(iter(seen.workload.foreign.values()), None)
    if foreign is not None and not exists:
        return WorkloadStep(blocked=Cause("NameTaken", foreign))
    problem = config_problem(seen)
    if problem is not None and not exists:
        return WorkloadStep(blocked=problem)
    try:
        if seen.valid_goal.spec.tuning is not None:
            return _tuning(seen, progress)
        return _inference(seen, progress)
    except UnknownGPUs as error:
        return WorkloadStep() if exists else WorkloadStep(blocked=Cause("NodeNotReady", str(error)))


def _inference(seen: WorkspaceObservation, progress: NodeProgress) -> WorkloadStep:
    present = seen.workload.server
    if present is not None:
        missing = tuple(missing_services(seen))
        upgrade, operations = _changes(seen, present, progress)
        changes = (*_patch(seen, present, upgrade or operations), *_end_of_deployment(seen))
        return WorkloadStep((missing,) if missing else (), changes, upgrades=bool(upgrade))
    if seen.valid_goal.lacks_model:
        return WorkloadStep(blocked=missing_model(seen))
    if not progress.is_ready:
        return WorkloadStep()
    body = _server_body(seen, progress)
    if body is None:
        return WorkloadStep()
    if seen.workload.deployment is not None:
        return WorkloadStep(changes=tuple(_end_of_deployment(seen)), blocked=_MIGRATION)
    note = f"created StatefulSet {seen.workspace.metadata.name}"
    create = Create(
        _target(seen, STATEFUL_SETS, seen.workspace.metadata.name),
        body,
        on_success=Event("Normal", "CreatedStatefulSet", "Create", note),
    )
    return WorkloadStep((tuple(missing_services(seen)), (create,)))


def _end_of_deployment(seen: WorkspaceObservation) -> Iterator[Delete]:
    """Yield the deletion of a server of Kaito before 0.8, whose pods hold the GPUs."""
    found = seen.workload.deployment
    if found is None or found.metadata.terminating:
        return
    meta = found.metadata
    note = f"deleted Deployment {meta.name} of an older Kaito: a StatefulSet takes its place"
    event = Event("Warning", _MIGRATION.reason, "Delete", note)
    target = _target(seen, DEPLOYMENTS, meta.name)
    yield Delete(target, meta.uid, propagation="Foreground", on_success=event)


def missing_services(seen: WorkspaceObservation) -> Iterator[Create]:
    """Yield the creates of the services that a model server needs and that do not exist."""
    for body in services(seen.workspace.metadata, seen.options):
        name: str = body["metadata"]["name"]
        if name not in seen.workload.services:
            yield Create(_target(seen, SERVICES, name), body)


def _server_body(seen: WorkspaceObservation, progress: NodeProgress) -> dict[str, Any] | None:
    """Return the body of the StatefulSet; None while the model is not known."""
    goal, meta, options = seen.valid_goal, seen.workspace.metadata, seen.options
    nodes, revision = progress.target, seen.workload.history.revision
    earlier = progress.uses_earlier_nodes
    if goal.preset is None:
        return template_stateful_set(
            meta, goal.spec, nodes, revision, options, uses_earlier_nodes=earlier
        )
    if goal.model is None:
        return None
    gpus, present = _gpus(seen), seen.workload.server
    local = is_on_local_disk(present) if present else gpus.nvme and seen.workload.has_local_disks
    serving = Serving(goal.model, gpus, nodes, revision, local, uses_earlier_nodes=earlier)
    return preset_stateful_set(meta, goal.spec, serving, options)


def _changes(
    seen: WorkspaceObservation, present: StatefulSet, progress: NodeProgress
) -> tuple[Operations, Operations]:
    """Return the changes of an existing server: of its image, or else of the rest.

    A terminating one is left alone.
    """
    inference = seen.valid_goal.spec.inference
    if inference is None or present.metadata.terminating:
        return (), ()
    desired, revision = _server_body(seen, progress), seen.workload.history.revision
    if desired is None:
        return (), ()
    if inference.preset is None:
        return (), template_changes(present, desired, revision)
    upgrade = image_upgrade(seen.workspace.metadata, present, desired, revision)
    return upgrade, preset_changes(present, desired, inference, revision)


def _patch(
    seen: WorkspaceObservation, present: StatefulSet, operations: Operations
) -> Iterator[JsonPatch]:
    if operations:
        target = _target(seen, STATEFUL_SETS, present.metadata.name)
        note = f"updated StatefulSet {present.metadata.name}"
        event = Event("Normal", "UpdatedStatefulSet", "Update", note)
        yield JsonPatch(target, present.metadata.uid, operations, on_success=event)


def _tuning(seen: WorkspaceObservation, progress: NodeProgress) -> WorkloadStep:
    """Replace the job without waiting: delete it, and create it after its DELETE event."""
    present, revision = seen.workload.job, seen.workload.history.revision
    if present is None:
        return _new_job(seen) if progress.is_ready else WorkloadStep()
    meta = present.metadata
    state = revision.state_of(meta)
    if meta.terminating:
        return WorkloadStep()
    if state is RevisionState.PRESENT:
        return WorkloadStep(changes=tuple(_end_failed_pods(seen, present)))
    target = _target(seen, JOBS, meta.name)
    if state is RevisionState.UNMARKED:
        patch = {"metadata": {"annotations": revision.annotations}}
        return WorkloadStep(changes=(MergePatch(target, meta.uid, patch),))
    note = f"deleted Job {meta.name}, which was created from another specification"
    event = Event("Normal", "DeletedJob", "Delete", note)
    delete = Delete(target, meta.uid, propagation="Foreground", on_success=event)
    return WorkloadStep(changes=(delete,))


def _end_failed_pods(seen: WorkspaceObservation, job: Job) -> Iterator[Delete]:
    """Delete pods that others keep alive after they have failed, so that the Job tries again."""
    own = own_containers(job)
    for pod in failed_alive(job, seen.workload.pods, own):
        name, others = pod.metadata.name, ", ".join(others_alive(pod, own))
        note = f"deleted pod {name}, so that its Job tries again: {others} kept it alive"
        event = Event("Normal", "DeletedPod", "Delete", note)
        yield Delete(_target(seen, PODS, name), pod.metadata.uid, on_success=event)


def _new_job(seen: WorkspaceObservation) -> WorkloadStep:
    goal, meta, options = seen.valid_goal, seen.workspace.metadata, seen.options
    tuning = goal.spec.tuning
    model = find_tunable_model(tuning.preset.name) if tuning and tuning.preset else None
    if tuning is None or model is None:
        return WorkloadStep()
    found = seen.workload
    facts = Tuning(model, _gpus(seen), results_folder(found.config), found.history.revision)
    job = Create(
        _target(seen, JOBS, meta.name),
        tuning_job(meta, goal.spec, facts, options),
        on_success=Event("Normal", "CreatedJob", "Create", f"created Job {meta.name}"),
    )
    if seen.workload.config is not None:
        return WorkloadStep(((job,),))
    body = default_config_map(tuning, meta.namespace)
    config = Create(_target(seen, OPTIONS_MAPS, body["metadata"]["name"]), body)
    return WorkloadStep(((config,), (job,)))


def _gpus(seen: WorkspaceObservation) -> NodeGPUs:
    """Return the GPUs of each node, as far as those of a ready one are known."""
    ready = ((node.name, node.labels) for node in seen.nodes if node.is_ready)
    resource = seen.valid_goal.spec.resource
    return workload_gpus(resource, seen.options, next(ready, None))


def _target(seen: WorkspaceObservation, resource: Resource[Any], name: str) -> Target:
    return Target(resource, seen.workspace.metadata.namespace, name, scope=SCOPE)


def serves(server: StatefulSet | None) -> bool:
    """Return whether all pods of a model server are ready."""
    if server is None:
        return False
    return server.status.ready_replicas == _wanted(server) > 0


def _wanted(server: StatefulSet) -> int:
    return 1 if server.spec.replicas is None else server.spec.replicas


_ENDED: Final = frozenset({"Failed", "Succeeded"})
_TEMPLATE: Final = "inference.template"
_OF_TEMPLATE: Final = remedies_in(_TEMPLATE) | {
    reasons.QUOTA_NEEDS_RESOURCES: f"set them in {_TEMPLATE}"
}


def lacks_pod(workload: SeenWorkload) -> ObjectMeta | None:
    """Return the metadata of the server or job that lacks a pod; None if there is no such object.

    A pod that has ended is one that it has to replace.
    """
    server, job = workload.server, workload.job
    found = server or job
    if found is None or found.metadata.terminating or serves(server):
        return None
    living = sum(pod.status.phase not in _ENDED for pod in workload.pods)
    if server is not None:
        return server.metadata if living < _wanted(server) else None
    waits = job is not None and not (job.spec.suspend or living or job_end(job, workload.pods))
    return found.metadata if waits else None


def next_look_at(workload: SeenWorkload) -> datetime | None:
    """Return when the events of the object that lacks a pod are read; None if they are not."""
    creator = lacks_pod(workload)
    return next_look(creator, workload.failed_create) if creator is not None else None


def missing_pod(seen: WorkspaceObservation) -> Cause | None:
    """Return why a pod could not be created; None if it is there, or if nothing is known."""
    workload = seen.workload
    job = workload.job
    if job is not None and job.spec.suspend and job_end(job, workload.pods) is None:
        return Cause("TuningSuspended", suspension_of(job.metadata, WORKSPACES.kind))
    creator, found = lacks_pod(workload), workload.failed_create
    if creator is None or found is None or (found.unavailable and workload.pods):
        return None  # the pods that are there may tell
    resource = resources.STATEFUL_SETS if workload.server is not None else resources.JOBS
    cause = cause_of_missing_pod(resource, creator, found, _words(seen))
    return Cause(*cause) if cause is not None else None


def _words(seen: WorkspaceObservation) -> dict[Reason, str]:
    """Return remedies; a preset has no field for what its pods are made of."""
    spec = seen.valid_goal.spec
    if spec.inference is not None and spec.inference.preset is None:
        return _OF_TEMPLATE
    field = "tuning.preset" if spec.tuning is not None else "inference.preset"
    settled = f"{field} settles what is in the pod"
    return {
        reasons.QUOTA_NEEDS_RESOURCES: "give the namespace a LimitRange with defaults for them",
        reasons.LIMIT_RANGE_VIOLATED: f"ask for another LimitRange: {settled}",
        reasons.POD_SECURITY_VIOLATED: (
            f"ask for another level of Pod Security in this namespace: {settled}"
        ),
        reasons.ADMISSION_DENIED: f"ask for another policy: {settled}",
        reasons.OBJECT_INVALID: "correct the field of the Workspace that leads to this",
    }
