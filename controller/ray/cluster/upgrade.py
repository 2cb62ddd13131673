"""Upgrades of a cluster: the strategy, what is outdated, recreation, and earlier templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.metadata import is_owned_by, suffix
from controller.kube.objects import ControllerRevision, Pod
from controller.kube.resources import CONTROLLER_REVISIONS
from controller.ray.api import labels
from controller.ray.api.names import UPGRADE_STRATEGY_NONE
from controller.ray.api.pod_state import is_head
from controller.ray.api.raycluster import ClusterSpec, RayCluster
from controller.ray.api.upgrade_strategy import ROLLING_UPDATE
from controller.ray.children import body_of, child_scope
from controller.ray.cluster.children import Note, child_metadata
from controller.ray.cluster.head_and_workers import live_head
from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
from controller.ray.cluster.pods import delete_pod, patch_pod, pods_and_hashes, template_hash
from controller.ray.cluster.rollout import RevisionHistory, not_kept
from controller.ray.pods.environment import Role
from controller.ray.pods.hashes import (
    changed_fields,
    is_outdated,
    template_set_digest,
    templates_of,
)
from controller.runtime.kind import CacheReader, owned_by
from controller.runtime.plan import Create, Delete, Failure, Replace, Target, Write

# What becomes of outdated pods, by the strategy; validation refuses unknown ones.

_RECREATE: Final = "Recreate"
_KEPT: Final = (
    UPGRADE_STRATEGY_NONE,
    "upgradeStrategy does not replace running pods, so the change reaches new ones only",
)
_OUTLOOKS: Final[dict[str | None, tuple[str, str]]] = {
    _RECREATE: (
        "UpgradeStrategyRecreate",
        "pods are replaced unless only tolerations or scheduling gates have changed",
    ),
    ROLLING_UPDATE: (
        "UpgradeStrategyRollingUpdate",
        "the condition Upgrading says how they are replaced",
    ),
}


def outlook_of(spec: ClusterSpec) -> tuple[str, str]:
    """Return the reason of `PodsUpToDate` while pods are outdated, and what becomes of them."""
    return _OUTLOOKS.get(spec.upgrade_strategy.type, _KEPT)


# The options of the cluster that have changed since its pods were made.


def pods_with_former_options(seen: ClusterObservation) -> tuple[list[str], list[str]]:
    """Find the pods that run with former options: their names, and the fields that changed."""
    names: list[str] = []
    fields: set[str] = set()
    of_role: tuple[tuple[Role, Sequence[Pod]], ...] = (
        ("head", seen.heads),
        ("worker", seen.all_workers),
    )
    for role, pods in of_role:
        present = seen.desired.builder.options(role)
        stamps = {(pod.metadata.annotations or {}).get(labels.CLUSTER_OPTIONS) for pod in pods}
        changed = {stamp: changed_fields(stamp, present) for stamp in stamps}
        for pod in pods:
            found = changed[(pod.metadata.annotations or {}).get(labels.CLUSTER_OPTIONS)]
            if found and not pod.metadata.terminating:
                names.append(pod.metadata.name)
                fields |= found
    return sorted(names), sorted(fields)


# Finds the pods that were created from an older template than the present one.


def outdated_pods(seen: ClusterObservation) -> list[str]:
    """Return the names of the outdated pods, sorted, without those of removed groups."""
    pods = pods_and_hashes(seen)
    return sorted(p.metadata.name for p, wanted in pods if is_outdated(template_hash(p), wanted))


# `upgradeStrategy: Recreate`: a changed specification replaces all pods at once.
#
# The head carries the hash of the specification from which it was created, and is deleted last: as
# long as it exists, an interrupted replacement continues. A hash of another
# operator, or of another algorithm, cannot be compared: such a head only gets a new hash, so that
# handing a cluster over in either direction replaces no pod.

_REASON: Final = "the specification has changed and upgradeStrategy is Recreate"


def is_recreation_due(seen: ClusterObservation) -> bool:
    """Return whether the live head was created from another specification.

    Without a live head there is nothing to compare: the next head is up to date anyway.
    """
    head = live_head(seen) if seen.desired.spec.upgrade_strategy.type == _RECREATE else None
    if head is None:
        return False
    stamped, wanted = head.metadata.annotations or {}, seen.desired.builder.head_stamps
    same_operator = stamped.get(labels.KUBERAY_VERSION) == wanted[labels.KUBERAY_VERSION]
    return same_operator and is_outdated(
        stamped.get(labels.RECREATE_HASH), wanted[labels.RECREATE_HASH]
    )


def stamp_head(seen: ClusterObservation) -> Iterator[Write]:
    """Replace a hash of the head that cannot be compared."""
    head = live_head(seen) if seen.desired.spec.upgrade_strategy.type == _RECREATE else None
    if head is None or is_recreation_due(seen):
        return
    present, wanted = head.metadata.annotations or {}, seen.desired.builder.head_stamps
    if any(present.get(key) != value for key, value in wanted.items()):
        yield from patch_pod(seen, head, wanted)


def delete_everything(seen: ClusterObservation) -> tuple[list[Write], list[Write]]:
    """Return deletes of all workers, then of the heads once no lost create can add a worker."""
    pods = seen.live_pods
    workers: list[Write] = [
        delete_pod(seen, pod, what="WorkerPod", reason=_REASON) for pod in pods if not is_head(pod)
    ]
    heads: list[Write] = [
        delete_pod(seen, pod, what="HeadPod", reason=_REASON) for pod in pods if is_head(pod)
    ]
    return [*seen.settled(workers)], heads if not seen.pending_scopes else []


# Stores earlier templates of a cluster's pods as ControllerRevisions, for `manta rollout undo`.
#
# Only clusters with rolling updates have a history. A revision is named after its content: repeated
# templates are the same revision, which becomes the newest again, as with StatefulSets.

KEPT: Final = 10
"""Number of revisions kept for a cluster; more only while pods of older ones exist."""

LARGEST: Final = 1_000_000
"""Maximum bytes of stored templates; etcd refuses objects of 1.5 MiB."""

CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
"""Annotation that `kubectl rollout history` shows; copied from the cluster to its revision."""


def observe_history(seen: ClusterObservation, reads: CacheReader) -> RevisionHistory | None:
    """Return the history; None without rolling updates, or if revisions cannot be read."""
    cluster, desired = seen.cluster, seen.desired
    is_rolling = desired.spec.upgrade_strategy.rolling is not None
    if not is_rolling or not reads.serves(CONTROLLER_REVISIONS):
        return None
    meta = cluster.metadata
    templates = template_set_digest(desired.spec.ray_version, desired.builder.hashes)
    name = f"{meta.name}-{suffix(meta.uid, templates)}"
    owned = owned_by(reads, CONTROLLER_REVISIONS, meta)
    kept = tuple(each for each in owned if not each.metadata.terminating)
    history = RevisionHistory(name, kept)
    if history.present is not None:
        return history
    record = reads.record(meta.uid)
    is_pending = child_scope(CONTROLLER_REVISIONS, name) in record.pending_scopes
    error = record.create_error(CONTROLLER_REVISIONS, f"{meta.namespace}/{name}")
    return RevisionHistory(
        name,
        kept,
        _refusal(cluster, name, reads),
        f"{error.reason}: {error.message}" if error is not None else "",
        is_pending,
    )


def history_notes(failures: Iterable[Failure]) -> tuple[Note, ...]:
    """Return notes about a create whose outcome has been unknown for some time.

    The history itself names a rejected create.
    """
    return tuple(
        not_kept(f"{each.reason}: {each.message}")
        for each in failures
        if each.overdue and isinstance(each.write, Create) and is_of_history(each)
    )


def is_of_history(failure: Failure) -> bool:
    """Return whether a failed write was one of a revision, which blocks nothing."""
    return failure.write.target.resource is CONTROLLER_REVISIONS


def history_writes(seen: ClusterObservation) -> Iterator[Write]:
    """Store the present templates as the newest revision, and delete surplus ones."""
    history = seen.revisions
    if history is None:
        return
    present = history.present
    if history.is_missing:
        body = _revision(seen.cluster, seen.desired, history)
        yield Create(_target(seen, history.name), body)
    elif present is not None and present.revision < history.newest:
        number = {"revision": history.newest + 1}  # a patch would count as a change of the data
        yield Replace(_target(seen, history.name), present.metadata.uid, number)
    for revision in _surplus(seen, history):
        name = revision.metadata.name
        yield Delete(_target(seen, name), revision.metadata.uid)


def _refusal(cluster: RayCluster, name: str, reads: CacheReader) -> str:
    key = f"{cluster.metadata.namespace}/{name}"
    size = len(msgspec.json.encode(templates_of(cluster.spec)))
    if size > LARGEST:
        return f"they have {size} bytes, more than the {LARGEST} that a ControllerRevision may hold"
    taken = reads.get(CONTROLLER_REVISIONS, key)
    if reads.record(cluster.metadata.uid).has_name_conflict(CONTROLLER_REVISIONS, key) or (
        taken is not None and not is_owned_by(taken.metadata, cluster.metadata.uid)
    ):
        return f"ControllerRevision {name} belongs to another object"
    return ""


def _revision(
    cluster: RayCluster, desired: DesiredCluster, history: RevisionHistory
) -> dict[str, Any]:
    hashes = msgspec.json.encode(desired.builder.hashes).decode()
    annotations = {labels.TEMPLATE_HASHES: hashes}
    cause = (cluster.metadata.annotations or {}).get(CHANGE_CAUSE)
    if cause:
        annotations[CHANGE_CAUSE] = cause
    metadata = child_metadata(
        desired.identity, history.name, {labels.CLUSTER: desired.identity.name}
    )
    metadata["annotations"] = annotations
    data = {"spec": templates_of(cluster.spec)}
    return body_of(CONTROLLER_REVISIONS, metadata, data=data, revision=history.newest + 1)


def _surplus(seen: ClusterObservation, history: RevisionHistory) -> Iterator[ControllerRevision]:
    """Yield the oldest revisions from which no outdated pod was created."""
    others = [each for each in history.revisions if each.metadata.name != history.name]
    others.sort(key=lambda each: (each.revision, each.metadata.name))
    excess = len(others) + 1 - KEPT
    if excess <= 0:
        return
    used = _outdated_hashes(seen)
    for revision in others:
        if excess > 0 and used.isdisjoint(_hashes(revision).items()):
            excess -= 1
            yield revision


def _outdated_hashes(seen: ClusterObservation) -> set[tuple[str, str]]:
    """Yield group and hash of the pods that were created from other templates."""
    grouped = {"": seen.heads, **seen.workers}
    stamped = {(group, template_hash(pod)) for group, pods in grouped.items() for pod in pods}
    present = seen.desired.builder.hashes.items()
    return {(group, hash_) for group, hash_ in stamped if hash_} - set(present)


def _hashes(revision: ControllerRevision) -> dict[str, str]:
    text = (revision.metadata.annotations or {}).get(labels.TEMPLATE_HASHES, "")
    try:
        found = mapping(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {group: hash_ for group, hash_ in found.items() if isinstance(hash_, str)}


def _target(seen: ClusterObservation, name: str) -> Target:
    scope = child_scope(CONTROLLER_REVISIONS, name)
    return Target(CONTROLLER_REVISIONS, seen.cluster.metadata.namespace, name, scope)
