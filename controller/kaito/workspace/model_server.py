"""What a Workspace's model server is seen to do: its pods, why they wait, and its benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from controller.apimachinery.conditions import is_true
from controller.apimachinery.custom_object import conditions_of
from controller.apimachinery.metadata import is_owned_by
from controller.apimachinery.redaction import last_error
from controller.kaito.api import labels
from controller.kaito.api.config_maps import OPTIONS_MAPS
from controller.kaito.api.options import Runtime
from controller.kaito.api.revisions import next_revision, possible_names
from controller.kaito.api.status import (
    BENCHMARK_COMPLETED,
    PEAK_METRIC,
    Cause,
    ConditionFacts,
    cut,
    throughput,
)
from controller.kaito.api.workspace import Workspace
from controller.kaito.lookups.background import Answered, LookupState, Unanswered
from controller.kaito.lookups.benchmark import BenchmarkLog, Measurement
from controller.kaito.lookups.huggingface import WorkspaceLookups
from controller.kaito.workloads.pods import LOCAL_DISK_CLASS, engine_metadata
from controller.kaito.workloads.preset import is_benchmarked, server_image
from controller.kaito.workloads.server import headless_service_name
from controller.kaito.workspace.edits import SCOPE as HISTORY
from controller.kaito.workspace.observation import Goal, SeenWorkload
from controller.kaito.workspace.watches import DEPLOYMENTS, JOBS, PODS, REVISIONS, STORAGE_CLASSES
from controller.kaito.workspace.workload import SCOPE, serves
from controller.kube.objects import (
    Condition,
    ContainerStateTerminated,
    ContainerStatus,
    KubeObject,
    ObjectMeta,
    Pod,
    StatefulSet,
)
from controller.kube.resources import SERVICES, STATEFUL_SETS, Resource
from controller.runtime.kind import CacheReader, other_owner, owned_by

# The cause that keeps pods from becoming ready, with Kaito's reasons.
#
# The texts have no times and no counts, and a crashing container has the same text while it runs
# between two crashes, so that the status is not written for each of them.

# Source of the names: kaito-project/kaito at 056b8280,
# pkg/workspace/controllers/workspace_controller.go.
_CANNOT_PULL: Final = (
    *("ErrImageNeverPull", "ErrImagePull", "ImageInspectError", "ImagePullBackOff"),
    *("InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed"),
)
_CANNOT_START: Final = (
    *("CreateContainerConfigError", "CreateContainerError", "PostStartHookError"),
    *("PreCreateHookError", "PreStartHookError", "RunContainerError"),
)
_EVICTIONS: Final = (
    ("ephemeral-storage", "NodeDiskPressure"),
    ("disk", "NodeDiskPressure"),
    ("memory", "NodeMemoryPressure"),
    ("", "PodEvicted"),
)
"""Reasons by the words with which the kubelet says what a node lacks."""

_GATED: Final = "SchedulingGated"


def server_cause(pods: Iterable[Pod]) -> Cause | None:
    """Return the first cause among the pods of a model server, None if there is none.

    Causes are ordered as in Kaito, pods by their numbers. Pods that are ready or terminating have
    no cause.
    """
    failing = [pod for pod in pods if not pod.metadata.terminating and not is_ready(pod)]
    failing.sort(key=lambda pod: (len(pod.metadata.name), pod.metadata.name))
    return next((cause for check in _CHECKS for pod in failing if (cause := check(pod))), None)


def job_cause(pods: Iterable[Pod]) -> Cause | None:
    """Return the cause in the newest pod of a job; each earlier one was an attempt that is over."""
    by_age = sorted(
        pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name)
    )
    return server_cause(by_age[-1:])


def _out_of_memory(pod: Pod) -> Cause | None:
    for title, container in _containers(pod):
        end = _last_end(container)
        if end is not None and end.reason == "OOMKilled":
            said = f"{title} ran out of memory; let it use less, or take a larger instance type"
            return _cause("ContainerOOMKilled", pod, said)
    return None


def _not_pulled(pod: Pod) -> Cause | None:
    return _waiting(pod, _CANNOT_PULL, "ImagePullError", "the image of {} cannot be pulled")


def _not_started(pod: Pod) -> Cause | None:
    return _waiting(pod, _CANNOT_START, "ContainerStartError", "{} cannot be started")


def _waiting(pod: Pod, reasons: tuple[str, ...], reason: str, what: str) -> Cause | None:
    for title, container in _containers(pod):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason in reasons:
            said = waiting.message or waiting.reason
            return _cause(reason, pod, f"{what.format(title)}: {said}")
    return None


def _ended(pod: Pod) -> Cause | None:
    status = pod.status
    if status.phase != "Failed" or not status.reason:
        return None
    said = f"{status.reason}: {status.message}" if status.message else status.reason
    reason = "PodFailed"
    if status.reason == "Evicted":
        lacking = status.message.lower()
        reason = next(reason for word, reason in _EVICTIONS if word in lacking)
    return _cause(reason, pod, f"it has failed ({said})")


def _crashing(pod: Pod) -> Cause | None:
    for title, container in _containers(pod):
        end = _last_end(container)
        if end is not None and (end.exit_code or container.restart_count):
            words = ": ".join(filter(None, (end.reason, last_error(end.message))))
            why = f" ({words})" if words else ""
            said = f"{title} ended with exit code {end.exit_code}{why}"
            return _cause("ContainerCrashLoopBackOff", pod, said)
    return None


def _unscheduled(pod: Pod) -> Cause | None:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return None
    gated = scheduled.reason == _GATED
    reason = _GATED if gated else "Unschedulable"
    return _cause(reason, pod, f"it cannot be scheduled: {scheduled.message or scheduled.reason}")


_CHECKS: Final[tuple[Callable[[Pod], Cause | None], ...]] = (
    _out_of_memory,
    _not_pulled,
    _not_started,
    _ended,
    _crashing,
    _unscheduled,
)


def _cause(reason: str, pod: Pod, message: str) -> Cause:
    return Cause(reason, cut(f"pod {pod.metadata.name}: {message}"))


def _containers(pod: Pod) -> Iterable[tuple[str, ContainerStatus]]:
    """Return the containers that are not ready, in the order in which they start."""
    for each in pod.status.init_container_statuses:
        if not each.ready:
            yield f"init container {each.name}", each
    for each in pod.status.container_statuses:
        if not each.ready:
            yield f"container {each.name}", each


def _last_end(container: ContainerStatus) -> ContainerStateTerminated | None:
    """Return its last end, even while it runs again."""
    return container.state.terminated or container.last_state.terminated


def is_ready(pod: Pod) -> bool:
    """Return whether a pod runs and its condition `Ready` is True."""
    ready = _condition(pod, "Ready")
    return pod.status.phase == "Running" and ready is not None and ready.status == "True"


def _condition(pod: Pod, type_: str) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == type_), None)


def benchmark_log(
    workspace: ObjectMeta,
    goal: Goal,
    server: StatefulSet | None,
    pods: Iterable[Pod],
    conditions: Sequence[Mapping[str, Any]],
) -> BenchmarkLog | None:
    """Return the log with a result of the benchmark that is not recorded yet; None without one.

    It is recorded once (KAI-22); only a new image of the server removes it. A server serves whether
    it was measured or not.
    """
    switched_off = (workspace.annotations or {}).get(labels.DISABLE_BENCHMARK) == "true"
    if server is None or switched_off or is_true(conditions, BENCHMARK_COMPLETED):
        return None
    if not goal.is_served_by_vllm or not is_benchmarked(server) or not serves(server):
        return None
    leader = next((each for each in pods if each.metadata.name == f"{workspace.name}-0"), None)
    return _log_of(leader, server) if leader is not None else None


def _log_of(leader: Pod, server: StatefulSet) -> BenchmarkLog | None:
    """Return the log of the first pod; None while it is not ready, or runs an older image."""
    names = [each.name for each in leader.spec.containers]
    container = server.metadata.name if server.metadata.name in names else next(iter(names), "")
    images = {each.name: each.image for each in leader.spec.containers}
    if not is_ready(leader) or images.get(container) != server_image(server):
        return None
    statuses = leader.status.container_statuses
    restarts = next((each.restart_count for each in statuses if each.name == container), 0)
    meta = leader.metadata
    return BenchmarkLog(meta.namespace, meta.name, meta.uid, container, restarts)


def benchmark_condition(
    found: LookupState[Measurement] | None, conditions: Sequence[Mapping[str, Any]]
) -> ConditionFacts | None:
    """Return the condition that says whether the result is recorded; None to leave it as it is."""
    if isinstance(found, Unanswered):
        return ConditionFacts(BENCHMARK_COMPLETED, False, found.reason, found.message)
    if found is None and not is_true(conditions, BENCHMARK_COMPLETED):
        return None
    message = "benchmark result has been recorded"
    return ConditionFacts(BENCHMARK_COMPLETED, True, "BenchmarkCompleted", message)


def performance(found: LookupState[Measurement] | None, quantization: str) -> dict[str, Any] | None:
    """Return `status.performance`; None to leave it unchanged."""
    if not isinstance(found, Answered):
        return None
    measured, engine = found.answer, engine_metadata(Runtime.VLLM)
    config = {**measured.config, **engine, "quantization": quantization}
    return {"metrics": {PEAK_METRIC: throughput(measured.tokens_per_minute, config)}}


T = TypeVar("T", bound=KubeObject)


def observe_workload(
    workspace: Workspace, goal: Goal, reads: CacheReader, lookups: WorkspaceLookups | None
) -> SeenWorkload:
    """Read the revisions, services, server or job, options, and results of look-ups."""
    meta = workspace.metadata
    config = goal.config_name
    options = reads.get(OPTIONS_MAPS, f"{meta.namespace}/{config}") if config else None
    server, job = _own(STATEFUL_SETS, meta, reads), _own(JOBS, meta, reads)
    creator = server or job
    pods = tuple(owned_by(reads, PODS, creator.metadata)) if creator else ()
    log = benchmark_log(meta, goal, server, pods, conditions_of(workspace))
    has_classes = reads.serves(STORAGE_CLASSES)
    record, revisions = reads.record(meta.uid), tuple(owned_by(reads, REVISIONS, meta))
    names = possible_names(meta.name, goal.hash)
    taken = [n for n in names if other_owner(reads, REVISIONS, f"{meta.namespace}/{n}", meta.uid)]
    services = (reads.get(SERVICES, f"{meta.namespace}/{each}") for each in _services(meta.name))
    return SeenWorkload(
        revisions=revisions,
        history=next_revision(workspace, goal.hash, revisions, taken),
        services=frozenset(each.metadata.name for each in services if each is not None),
        server=server,
        deployment=_own(DEPLOYMENTS, meta, reads),
        job=job,
        pods=pods,
        failed_create=record.failed_create(creator.metadata.uid) if creator else None,
        benchmark_log=log,
        benchmark=lookups.benchmark(log) if lookups is not None and log is not None else None,
        config=options.texts if options is not None else None,
        has_local_disks=has_classes and reads.get(STORAGE_CLASSES, LOCAL_DISK_CLASS) is not None,
        has_pending_writes=SCOPE in record.pending_scopes,
        has_pending_history=HISTORY in record.pending_scopes,
        foreign=dict(_foreign(meta, goal, reads)),
    )


def _own(resource: Resource[T], workspace: ObjectMeta, reads: CacheReader) -> T | None:
    found = reads.get(resource, workspace.key)
    return found if found is not None and is_owned_by(found.metadata, workspace.uid) else None


def _foreign(workspace: ObjectMeta, goal: Goal, reads: CacheReader) -> Iterator[tuple[str, str]]:
    """Yield objects of others with a name that the workload needs, each with a sentence."""
    for resource, name in _wanted_names(workspace, goal, reads):
        title = f"{resource.kind} {name}"
        if owner := other_owner(reads, resource, f"{workspace.namespace}/{name}", workspace.uid):
            yield title, f"there is a {title} that {owner}: delete or rename one of the two"


def _wanted_names(
    workspace: ObjectMeta, goal: Goal, reads: CacheReader
) -> Iterator[tuple[Resource[Any], str]]:
    """Yield the names that the workload needs for itself.

    A service without a controller may be the user's own, as in Kaito. Another Workspace's leads to
    another model: `a` and `a-headless` both need a service `a-headless`.
    """
    yield (JOBS if goal.spec.tuning is not None else STATEFUL_SETS), workspace.name
    for name in () if goal.spec.tuning is not None else _services(workspace.name):
        found = reads.get(SERVICES, f"{workspace.namespace}/{name}")
        if found is not None and found.metadata.controller is not None:
            yield SERVICES, name


def _services(name: str) -> tuple[str, str]:
    return name, headless_service_name(name)
