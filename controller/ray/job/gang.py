"""The Volcano PodGroup of a RayJob: the cluster's pods, and room for the submitter.

It is made before the cluster. An attempt that has ended gives back its place in the queue: the
group shrinks to what is left of the cluster, as in KubeRay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec

from controller.ray.api.batch_schedulers import VOLCANO
from controller.ray.api.raycluster import ClusterSpec
from controller.ray.api.rayjob import RAYJOBS, JobSpec, SubmissionMode
from controller.ray.children.child import create_child, repair_child
from controller.ray.children.scheduling_groups import (
    NO_GROUPS,
    ObservedGroups,
    observe_group,
    volcano_group,
)
from controller.ray.job.facts import State
from controller.ray.job.observation import JobObservation
from controller.ray.job.submitter import default_container, submitter_pod
from controller.ray.pods.gang import GangSize, gang_size
from controller.runtime.kind import CacheReader
from controller.runtime.plan import Event, Write

_RUNS: Final = frozenset({State.INITIALIZING, State.WAITING, State.RUNNING})
_ENDS: Final = frozenset({State.SUSPENDING, State.SUSPENDED, State.RETRYING})
_ENDED: Final = frozenset({State.COMPLETE, State.FAILED})


def observe_job_group(seen: JobObservation, reads: CacheReader) -> ObservedGroups:
    """Observe the group of a RayJob with a cluster of its own."""
    spec = seen.spec
    is_ours = seen.settings.batch_scheduler is VOLCANO and not spec.selected_cluster
    if not is_ours or seen.problem is not None or seen.job.metadata.terminating:
        return NO_GROUPS
    size = _size(seen)
    if size is None:
        return NO_GROUPS
    found = observe_group(volcano_group(RAYJOBS, seen.job.metadata, size), seen.job.metadata, reads)
    return found if seen.state in _RUNS else replace(NO_GROUPS, drifted=found.drifted)


def sync_group(seen: JobObservation, now: datetime) -> Iterator[Write]:
    """Make the group, or give it the size that it should have now."""
    namespace = seen.job.metadata.namespace
    for child in seen.groups.absent:
        if child.scope not in seen.pending_scopes:
            yield create_child(namespace, child, now)
    for drift in seen.groups.drifted:
        write = repair_child(namespace, drift, now)
        if write is None or drift.child.scope in seen.pending_scopes:
            continue
        if seen.state in _RUNS:
            yield write
        else:
            name = seen.job.metadata.name
            note = f"Cleaned up batch scheduler resources of RayJob {name}"
            yield replace(
                write, on_success=Event("Normal", "BatchSchedulerCleanedUp", "Cleanup", note)
            )


def awaits_group(seen: JobObservation) -> bool:
    """Return whether the cluster must not be created yet."""
    children = (*seen.groups.absent, *(drift.child for drift in seen.groups.drifted))
    unknown = any(child.scope in seen.pending_scopes for child in children)
    return seen.groups.hold_up or unknown


def _size(seen: JobObservation) -> GangSize | None:
    """Return the size that the group should have; None while it does not matter."""
    if seen.state in _ENDS:
        return GangSize()
    gone = seen.cluster is None or seen.cluster.metadata.terminating
    live = None if gone else seen.cluster_spec  # an edit of the job reaches the next attempt only
    if seen.state in _ENDED:
        return GangSize() if live is None else gang_size(live, least=True)
    if seen.state not in _RUNS:
        return None
    cluster = live or msgspec.convert(seen.spec.ray_cluster_spec or {}, ClusterSpec)
    return gang_size(cluster, _reserved(seen.spec, cluster, live), least=True)


def _reserved(
    spec: JobSpec, cluster: ClusterSpec, live: ClusterSpec | None
) -> list[Mapping[str, Any]]:
    """Return the containers of the submitter; as a sidecar it is a part of the live cluster.

    It counts in no number of members: it waits for the cluster, which must not wait for it.
    """
    if spec.submission_mode is SubmissionMode.K8S_JOB:
        return submitter_pod(spec, cluster)["containers"]
    is_sidecar = spec.submission_mode is SubmissionMode.SIDECAR
    return [default_container(cluster)] if is_sidecar and live is None else []
